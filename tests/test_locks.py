"""A folder has one writer at a time, among processes and threads, and nothing of a living writer is removed."""

import errno
import fcntl
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from laconic.errors import UserError
from laconic.system.files import replacing
from laconic.system.locks import LockedError, locked

WRITER = """if True:
    import pathlib, sys
    from laconic.system.files import replacing
    with replacing(pathlib.Path(sys.argv[1])) as partial:
        (partial / "file").write_text("of the child")
        print("half way", flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def other(tmp_path):
    """A process that has half written the folder; a line on its standard input lets it go on."""
    command = [sys.executable, "-c", WRITER, tmp_path / "folder"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half way\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path, other):
    folder = tmp_path / "folder"
    with pytest.raises(UserError, match=rf"folder: process {other.pid} on \S+ is writing"), replacing(folder):
        pass
    other.communicate("go on\n")
    assert (tmp_path / "folder" / "file").read_text() == "of the child"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_lock_ends_with_a_killed_process_and_what_it_left_is_removed(tmp_path, other):
    other.kill()
    other.wait()
    assert len(list(tmp_path.iterdir())) == 2  # what it had written, and its lock file
    with replacing(tmp_path / "folder") as partial:
        (partial / "file").write_text("of the next")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_of_two_threads_one_is_refused_and_the_folder_is_whole(tmp_path):
    barrier = threading.Barrier(4)

    def write(number):
        barrier.wait()
        try:
            with replacing(tmp_path / "folder") as partial:
                for name in "abcdefgh":
                    (partial / name).write_text(str(number))
        except LockedError:
            return False
        return True

    for _ in range(20):
        with ThreadPoolExecutor(4) as threads:
            assert any(threads.map(write, range(4)))
        content = [path.read_text() for path in (tmp_path / "folder").iterdir()]
        assert len(content) == 8
        assert len(set(content)) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_thread_may_write_what_it_has_locked(tmp_path):
    with locked(tmp_path / "folder"):
        with replacing(tmp_path / "folder") as partial:
            (partial / "file").touch()
        with ThreadPoolExecutor(1) as thread, pytest.raises(LockedError, match=f"process {os.getpid()} on"):
            thread.submit(lambda: locked(tmp_path / "folder").__enter__()).result()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_link_and_what_it_points_at_have_one_lock(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with locked(tmp_path / "link"), ThreadPoolExecutor(1) as thread, pytest.raises(LockedError):
        thread.submit(lambda: locked(tmp_path / "folder").__enter__()).result()


def test_a_forked_process_does_not_hold_the_lock(tmp_path):
    with locked(tmp_path / "folder"):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(write)
            os.read(read, 1)  # until the parent is done
            os._exit(0)
    with locked(tmp_path / "folder"):
        pass
    os.close(write)
    os.waitpid(child, 0)


def test_a_lock_file_that_was_removed_meanwhile_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    flock, calls = fcntl.flock, []

    def late(descriptor, how):
        if not calls:
            (tmp_path / ".folder.lock").unlink()  # as its last holder does when it ends
        calls.append(descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(tmp_path / "folder"):
        assert len(calls) == 2
        assert (tmp_path / ".folder.lock").read_text().startswith(f"process {os.getpid()} on ")


def test_a_file_system_without_locks_is_written_all_the_same_and_keeps_what_may_live(tmp_path, monkeypatch, caplog):
    def none(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    (tmp_path / ".folder.partial-of-another").mkdir()
    with caplog.at_level(logging.WARNING), replacing(tmp_path / "folder") as partial:
        (partial / "file").touch()
    assert "this file system has no locks (No locks available)" in caplog.text
    assert {path.name for path in tmp_path.iterdir()} == {"folder", ".folder.partial-of-another"}
