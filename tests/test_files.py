import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from laconic.errors import UserError
from laconic.files import replacing, writing


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
    monkeypatch.setattr("laconic.files._exchanged", lambda one, other: False)
    test_a_folder_takes_the_place_of_an_older_one(tmp_path)


def test_a_failed_folder_leaves_the_old_one(tmp_path):
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "old").touch()
    with pytest.raises(ValueError, match="half way"), replacing(folder) as partial:
        (partial / "new").touch()
        raise ValueError("half way")
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_full_disk_is_an_error_for_people_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(UserError, match=r"file: the disk is full; nothing was changed"), writing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_kill_in_the_middle_leaves_the_old_folder_and_the_next_write_sweeps_up(tmp_path):
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "old").touch()
    code = """if True:
        import sys, time, pathlib
        from laconic.files import replacing
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
    assert len(list(tmp_path.iterdir())) == 2
    with replacing(folder) as partial:
        (partial / "newer").touch()
    assert [path.name for path in folder.iterdir()] == ["newer"]
    assert list(tmp_path.iterdir()) == [folder]


def test_readers_see_a_whole_folder_at_every_moment(tmp_path):
    folder = tmp_path / "folder"
    with replacing(folder) as partial:
        (partial / "file").write_text("0")
    code = """if True:
        import sys, pathlib
        from laconic.files import replacing
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
