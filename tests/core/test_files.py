"""Files are written whole, or an error of ours says why not."""

import errno
import os

import pytest

import quasir as qr
from quasir.core import files


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EACCES, "can be written"),
        (errno.EROFS, "can be written"),
        (errno.ENAMETOOLONG, "another name"),
        (errno.ENOTDIR, "in the way"),
    ],
)
def test_what_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch, number, advice):
    path = tmp_path / "file"
    files.write_text(path, "before")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(qr.errors.StoreError, match=advice):
        files.write_text(path, "after")
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_folder_where_a_file_is(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(qr.errors.StoreError, match="in the way"):
            files.make_folder(path)
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(qr.errors.StoreError, match="File name too long"):
        files.make_folder(tmp_path / ("a" * 5000))


def test_a_long_path_is_shortened():
    assert files.shortened("a" * 5000) == "a" * 100 + "..." + "a" * 100
    assert files.shortened("runs/mine") == "runs/mine"
