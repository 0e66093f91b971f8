"""The digest of a file is that of its content."""

import hashlib

import pytest

from gibbsdiff.errors import InputError
from gibbsdiff.io.digest import file_digest


def test_it_is_the_beginning_of_sha_256(tmp_path):
    path = tmp_path / "weights"
    content = bytes(range(256)) * 5000
    path.write_bytes(content)
    assert file_digest(path) == file_digest(str(path)) == hashlib.sha256(content).hexdigest()[:16]
    path.write_bytes(content[:-1])
    assert file_digest(path) != hashlib.sha256(content).hexdigest()[:16]


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"nothing: no such file$"):
        file_digest(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)$"):
        file_digest(tmp_path)
