"""Options as words of a command line, for what runs as a program of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._values import values


def options(command: str, declared: type, given: Mapping[str, Any], without: Iterable[str] = ()) -> list[str]:
    """What `given` says, by the types that `declared`, a TypedDict, has: `max_workers=8` is --max-workers=8."""
    found = []
    for name, value in values(command, declared, given, without).items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        else:
            found += [f"{option}={one}" for one in (value if isinstance(value, list) else [value])]
    return found
