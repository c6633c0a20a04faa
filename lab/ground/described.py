"""What the program at hand says of itself: its rules, its recipes, and the options of its commands."""

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.ground.shell import CommandFailed, run


@dataclass(frozen=True)
class Described:
    rules: frozenset[str]
    recipes: frozenset[str]
    # By command.
    options: Mapping[str, frozenset[str]]


@functools.cache
def asked(program: Path, built_ns: int) -> Described | str:
    """What that build says, or in one line why it says nothing."""
    try:
        said = json.loads(run([program, "describe"]))
        return Described(frozenset(said["optimizers"]), frozenset(said["recipes"]),
                         {command["name"]: frozenset(option["name"] for option in command["options"])
                          for command in said["commands"]})
    except (CommandFailed, OSError, ValueError, KeyError, TypeError):
        return f"{program} is too old: it does not know `describe`; build a newer one: make build"


def version(program: Path) -> str:
    """What it calls itself, and which build it is."""
    said = run([program, "--version"], check=False).strip()
    return f"{said}, build {hashlib.blake2b(program.read_bytes(), digest_size=4).hexdigest()}"


def said_by(program: Path) -> Described | str:
    if not program.is_file():
        return f"{program.name} is not built; run: make build"
    return asked(program, program.stat().st_mtime_ns)


def lacking(program: Path) -> str | None:
    """Why the program cannot be measured, in one line; None if it can."""
    said = said_by(program)
    return said if isinstance(said, str) else None


def described(program: Path) -> Described:
    said = said_by(program)
    if isinstance(said, str):
        raise CommandFailed(said)
    return said
