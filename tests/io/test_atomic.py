"""Files appear whole, and several of them together, or everything stays as it was."""

import os

import pytest

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import move_together, write_atomically


def test_a_file_is_there_whole_with_the_usual_rights(tmp_path):
    write_atomically(tmp_path / "new" / "a.txt", "σ = 1")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "σ = 1"
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    write_atomically(tmp_path / "b", b"1")
    assert (tmp_path / "b").stat().st_mode == plain.stat().st_mode
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder: cannot be written"):
        write_atomically(tmp_path / "folder", b"1")
    assert {p.name for p in tmp_path.iterdir()} == {"new", "plain", "b", "folder"}


def content(folder):
    return {p.name: p.read_text() for p in folder.iterdir() if p.is_file()}


@pytest.mark.parametrize("linked", [True, False])  # with hard links, and on disks without them
@pytest.mark.parametrize("failing", [None, 0, 1, 2])
def test_files_move_together_or_not_at_all(tmp_path, monkeypatch, linked, failing):
    new, old = tmp_path / "new", tmp_path / "old"
    new.mkdir()
    old.mkdir()
    names = ["a", "b", "c"]
    for name in names:
        (new / name).write_text(f"new {name}")
    (old / "b").write_text("old b")
    if not linked:

        def refuse(*_):
            raise PermissionError("no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    if failing is not None:
        (old / names[failing]).unlink(missing_ok=True)
        (old / names[failing]).mkdir()  # no file can be moved over a folder
    before = content(old)
    if failing is None:
        move_together([old / name for name in names], new)
        assert content(old) == {name: f"new {name}" for name in names}
    else:
        with pytest.raises(OSError, match=names[failing]):
            move_together([old / name for name in names], new)
        assert content(old) == before
