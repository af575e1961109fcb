import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laconic.errors import UserError
from laconic.system.files import replacing, restore, writing


def test_a_file_appears_only_when_the_block_ends_well(tmp_path):
    path = tmp_path / "new" / "file"
    with writing(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="half way"), writing(path) as file:
        file.write(b"half")
        raise ValueError("half way")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_takes_the_place_of_an_older_one(tmp_path):
    folder = tmp_path / "folder"
    for content in ("old", "new"):
        with replacing(folder) as partial:
            (partial / content).write_text(content)
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_is_replaced_also_where_two_cannot_be_exchanged_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("laconic.system.files._exchanged", lambda one, other: False)
    test_a_folder_takes_the_place_of_an_older_one(tmp_path)


KILLED = """if True:
    import os, pathlib, sys
    from laconic.system import files

    def write(folder, names):
        with files.replacing(folder) as partial:
            for name in names:
                (partial / name).write_text(name)

    def kill_at(step, folder):
        steps = 0

        def count(event, arguments):
            nonlocal steps
            if event in EVENTS and any(str(folder.parent) in str(one) for one in arguments):
                steps += 1
                if steps == step:
                    os._exit(9)

        sys.addaudithook(count)

    EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
    files._exchanged = lambda one, other: False
    for step in range(1, 1000):
        folder = pathlib.Path(sys.argv[1]) / str(step) / "folder"
        write(folder, ["old", "as old"])
        child = os.fork()
        if not child:
            kill_at(step, folder)
            write(folder, ["new", "as new"])
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
    print(step)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Folders whose second writer was killed, each one step later, where two folders cannot be exchanged at once."""
    place = tmp_path_factory.mktemp("killed")
    run = subprocess.run([sys.executable, "-c", KILLED, place], check=True, capture_output=True, text=True)
    assert int(run.stdout) > 12  # so many steps a write has, and more
    return [place / str(step) / "folder" for step in range(1, int(run.stdout) + 1)]


def copied(folder, to):
    shutil.copytree(folder.parent, to)
    return to / folder.name


def content(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_reader_finds_the_old_folder_or_the_new_one_wherever_its_writer_was_killed(killed, tmp_path):
    found = []
    for number, one in enumerate(killed):
        folder = copied(one, tmp_path / str(number))
        restore(folder)
        found.append(content(folder))
        restore(folder)  # once more changes nothing
        assert content(folder) == found[-1]
    assert found == sorted(found, key=lambda names: "new" in names)
    assert (found[0], found[-1]) == (["as old", "old"], ["as new", "new"])
    assert {tuple(names) for names in found} == {("as old", "old"), ("as new", "new")}


def test_some_kills_leave_no_folder_until_it_is_restored(killed):
    assert not all(folder.exists() for folder in killed)


def test_the_next_writer_sweeps_up_wherever_the_last_one_was_killed(killed, tmp_path):
    for number, one in enumerate(killed):
        folder = copied(one, tmp_path / str(number))
        with replacing(folder) as partial:
            (partial / "newest").touch()
        assert content(folder) == ["newest"]
        assert list(folder.parent.iterdir()) == [folder]


def test_the_next_writer_may_fail_wherever_the_last_one_was_killed(killed, tmp_path):
    for number, one in enumerate(killed):
        folder = copied(one, tmp_path / str(number))
        with pytest.raises(ValueError, match="half way"), replacing(folder) as partial:
            (partial / "newest").touch()
            raise ValueError("half way")
        assert content(folder) in (["as old", "old"], ["as new", "new"])


@pytest.mark.parametrize(
    ("error", "raised"), [(OSError(errno.EIO, "broken"), UserError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_an_error_between_the_two_renames_puts_the_old_folder_back(tmp_path, monkeypatch, error, raised):
    monkeypatch.setattr("laconic.system.files._exchanged", lambda one, other: False)
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "old").touch()
    rename = os.rename

    def broken(one, other):
        if Path(other) == folder and "partial" in str(one):
            raise error
        rename(one, other)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(raised), replacing(folder) as partial:
        (partial / "new").touch()
    assert content(folder) == ["old"]
    assert list(tmp_path.iterdir()) == [folder]


def test_readers_that_restore_do_not_stop_a_writer(tmp_path):
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "file").write_text("0")
    code = """if True:
        import sys, pathlib
        from laconic.system import files
        files._exchanged = lambda one, other: False
        for number in range(200):
            with files.replacing(pathlib.Path(sys.argv[1])) as partial:
                (partial / "file").write_text(str(number))
    """
    process = subprocess.Popen([sys.executable, "-c", code, folder])
    while process.poll() is None:
        restore(folder)
    assert process.returncode == 0
    assert (folder / "file").read_text() == "199"
    assert list(tmp_path.iterdir()) == [folder]


def test_what_a_link_points_at_is_restored(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with replacing(tmp_path / "link") as partial:
        (partial / "old").touch()
    (tmp_path / "folder").rename(tmp_path / ".folder.set-aside")
    restore(tmp_path / "link")
    assert content(tmp_path / "link") == ["old"]


def test_a_failed_folder_leaves_the_old_one(tmp_path):
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "old").touch()
    with pytest.raises(ValueError, match="half way"), replacing(folder) as partial:
        (partial / "new").touch()
        raise ValueError("half way")
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EIO, "the disk failed (input/output error)"),
    ],
)
def test_a_full_or_broken_disk_is_an_error_for_people_and_keeps_the_old_file(tmp_path, number, words):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(UserError, match=re.escape(f"file: {words}; nothing was changed")), writing(path):
        raise OSError(number, os.strerror(number))
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_kill_in_the_middle_leaves_the_old_folder_and_the_next_write_sweeps_up(tmp_path):
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "old").touch()
    code = """if True:
        import sys, time, pathlib
        from laconic.system.files import replacing
        with replacing(pathlib.Path(sys.argv[1])) as partial:
            (partial / "new").touch()
            print("half way", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE)
    assert process.stdout.readline().strip() == b"half way"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert len(list(tmp_path.iterdir())) == 3  # with what it had written, and its lock file
    with replacing(folder) as partial:
        (partial / "newer").touch()
    assert [path.name for path in folder.iterdir()] == ["newer"]
    assert list(tmp_path.iterdir()) == [folder]


def test_the_current_folder_can_be_replaced(tmp_path, monkeypatch, caplog):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    for name in ("old", "new"):
        with replacing(Path(".")) as partial:
            (partial / name).touch()
        assert content(Path(".")) == [name]
    assert "the current folder was replaced; enter it again (cd .)" in caplog.text


def test_readers_see_a_whole_folder_at_every_moment(tmp_path):
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "file").write_text("0")
    code = """if True:
        import sys, pathlib
        from laconic.system.files import replacing
        for number in range(200):
            with replacing(pathlib.Path(sys.argv[1])) as partial:
                (partial / "file").write_text(str(number))
    """
    process = subprocess.Popen([sys.executable, "-c", code, folder])
    seen = set()
    while process.poll() is None:
        seen.add((folder / "file").read_text())
        time.sleep(0)
    assert process.returncode == 0
    assert seen <= {str(number) for number in range(200)}
