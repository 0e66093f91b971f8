"""Objects that rooms and other packages offer by name."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gibbsdiff.errors import InputError
from gibbsdiff.registry import find, names

ROOT = Path(__file__).parents[1]


def other_package(folder, package, group, *lines):
    """A package installed into a folder, by what pip leaves of it: its entry points."""
    place = folder / f"{package}-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


@pytest.mark.parametrize("group", ["objectives", "drawers", "problems"])
def test_every_name_of_the_package_is_there(group):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    wanted = declared[f"gibbsdiff.{group}"]
    assert set(wanted) <= set(names(f"gibbsdiff.{group}"))
    for name, target in wanted.items():
        found = find(f"gibbsdiff.{group}", name)
        assert f"{found.__module__}:{found.__qualname__}" == target


def test_an_unknown_name_is_refused_with_those_there_are():
    group = "gibbsdiff.objectives"
    assert {"spectral", "original", "resunet", "dust"} <= set(names(group))
    with pytest.raises(InputError, match=f"{group}: no 'dst' .* dust, original") as trouble:
        find(group, "dst")
    assert "\n" not in str(trouble.value)
    with pytest.raises(InputError, match="there are none"):
        find("gibbsdiff.nothing", "dust")


def test_another_package_adds_a_name_and_may_not_take_one_that_is_there(tmp_path, monkeypatch):
    other_package(tmp_path, "their_package", "gibbsdiff.test", "root = math:sqrt", "both = math:pi")
    other_package(tmp_path, "third_package", "gibbsdiff.test", "both = math:e", "again = math:e")
    monkeypatch.syspath_prepend(tmp_path)
    assert find("gibbsdiff.test", "root")(9) == 3
    assert find("gibbsdiff.test", "root") is find("gibbsdiff.test", "root")
    assert names("gibbsdiff.test") == ["again", "both", "root"]
    with pytest.raises(InputError, match=r"'both' is registered twice \(math:e, math:pi\)"):
        find("gibbsdiff.test", "both")


def test_looking_up_imports_nothing_heavy():
    code = "import sys, gibbsdiff.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
