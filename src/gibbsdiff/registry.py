"""What other rooms and other packages offer by name: objectives, problems, drawers.

A room imports only rooms before it. What it needs of a later one is a Python entry point, in the
tables `[project.entry-points."gibbsdiff.…"]` of pyproject.toml; another package adds its own in the
same way.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from gibbsdiff.errors import InputError


@cache
def find(group: str, name: str) -> Any:
    """The object registered as `name` in a group, such as `find("gibbsdiff.objectives", "dust")`.

    It is imported at the first call. A name that nobody registered is an `InputError` that lists
    those that are there; so is a name that two packages give to different objects.
    """
    registered = entry_points(group=group)
    if name not in registered.names:
        raise InputError(f"{group}: no {name!r} (there are {', '.join(names(group)) or 'none'})")
    targets = {point.value for point in registered.select(name=name)}
    if len(targets) > 1:
        raise InputError(f"{group}: {name!r} is registered twice ({', '.join(sorted(targets))})")
    return registered[name].load()


def names(group: str) -> list[str]:
    """The names registered in a group, sorted."""
    return sorted(entry_points(group=group).names)
