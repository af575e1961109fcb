/* A library to preload: it counts the system calls that change files under one folder, and kills the process before
 * one of them, or lets that one fail. `faults_arm` chooses; nothing happens before it is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char under[PATH_MAX];
static long at, seen;
static int failure, no_exchange;

/* Count from 1. At call number `number`, kill the process (error 0) or fail with that error; 0: only count. */
void faults_arm(const char *folder, long number, int error, int without_exchange) {
    snprintf(under, sizeof under, "%s", folder);
    at = number;
    seen = 0;
    failure = error;
    no_exchange = without_exchange;
}

long faults_seen(void) { return seen; }

static int concerns(int folder, const char *path) {
    char where[PATH_MAX * 2], base[PATH_MAX] = "", link[64];
    if (!under[0] || !path) return 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t size = readlink(link, base, sizeof base - 1);
            if (size < 0) return 0;
            base[size] = 0;
        }
        snprintf(where, sizeof where, "%s/%s", base, path);
        path = where;
    }
    return strncmp(path, under, strlen(under)) == 0;
}

static int concerns_file(int descriptor) { return descriptor > 2 && concerns(descriptor, ""); }

/* Return whether this call must fail; the error is set then. */
static int struck(int concerned) {
    if (!concerned || __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) != at) return 0;
    if (!failure) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) pause();
    }
    errno = failure;
    return 1;
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define GUARD(concerned) if (struck(concerned)) return -1

#define OPENING(name)                                                  \
    int name(const char *path, int flags, ...) {                       \
        NEXT(name);                                                    \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                  \
        GUARD(flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC) && concerns(AT_FDCWD, path)); \
        return next(path, flags, mode);                                \
    }
#define OPENING_AT(name)                                               \
    int name(int folder, const char *path, int flags, ...) {           \
        NEXT(name);                                                    \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                  \
        GUARD(flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC) && concerns(folder, path)); \
        return next(folder, path, flags, mode);                        \
    }
OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)

ssize_t write(int file, const void *bytes, size_t size) { NEXT(write); GUARD(concerns_file(file)); return next(file, bytes, size); }
ssize_t writev(int file, const struct iovec *parts, int count) { NEXT(writev); GUARD(concerns_file(file)); return next(file, parts, count); }
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t place) { NEXT(pwrite64); GUARD(concerns_file(file)); return next(file, bytes, size, place); }
ssize_t pwrite(int file, const void *bytes, size_t size, off_t place) { NEXT(pwrite); GUARD(concerns_file(file)); return next(file, bytes, size, place); }
int fsync(int file) { NEXT(fsync); GUARD(concerns_file(file)); return next(file); }
int fdatasync(int file) { NEXT(fdatasync); GUARD(concerns_file(file)); return next(file); }
int ftruncate(int file, off_t size) { NEXT(ftruncate); GUARD(concerns_file(file)); return next(file, size); }
int ftruncate64(int file, off64_t size) { NEXT(ftruncate64); GUARD(concerns_file(file)); return next(file, size); }
int rename(const char *one, const char *other) { NEXT(rename); GUARD(concerns(AT_FDCWD, one)); return next(one, other); }
int renameat(int a, const char *one, int b, const char *other) { NEXT(renameat); GUARD(concerns(a, one)); return next(a, one, b, other); }
int mkdir(const char *path, mode_t mode) { NEXT(mkdir); GUARD(concerns(AT_FDCWD, path)); return next(path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { NEXT(mkdirat); GUARD(concerns(folder, path)); return next(folder, path, mode); }
int unlink(const char *path) { NEXT(unlink); GUARD(concerns(AT_FDCWD, path)); return next(path); }
int unlinkat(int folder, const char *path, int flags) { NEXT(unlinkat); GUARD(concerns(folder, path)); return next(folder, path, flags); }
int rmdir(const char *path) { NEXT(rmdir); GUARD(concerns(AT_FDCWD, path)); return next(path); }
int chmod(const char *path, mode_t mode) { NEXT(chmod); GUARD(concerns(AT_FDCWD, path)); return next(path, mode); }
int fchmod(int file, mode_t mode) { NEXT(fchmod); GUARD(concerns_file(file)); return next(file, mode); }
int fchmodat(int folder, const char *path, mode_t mode, int flags) { NEXT(fchmodat); GUARD(concerns(folder, path)); return next(folder, path, mode, flags); }

int renameat2(int a, const char *one, int b, const char *other, unsigned int flags) {
    NEXT(renameat2);
    if (no_exchange && flags) {
        errno = EINVAL;
        return -1;
    }
    GUARD(concerns(a, one));
    return next(a, one, b, other, flags);
}
