"""The program that is measured: whether it is there, and which build it is."""

import hashlib
import os
from pathlib import Path

from lab.ground import places
from lab.ground.shell import run


def missing(program: Path | None = None) -> str | None:
    """Why it cannot be measured, in one line; None if it can."""
    program = program or places.tidegate_binary()
    return None if program.is_file() else f"{program.name} is not built; run: make build"


def version(program: Path | None = None) -> str:
    """What it calls itself, and which build it is."""
    program = program or places.tidegate_binary()
    said = run([program, "--version"], check=False).strip()
    # Where cargo puts what it does not optimise.
    profile = " (not optimised)" if program.parent.name == "debug" else ""
    # Who builds knows of what; the program does not.
    commit = f" of commit {of}" if (of := os.environ.get("TIDEGATE_LAB_COMMIT")) else ""
    return f"{said}, build {hashlib.blake2b(program.read_bytes(), digest_size=4).hexdigest()}{commit}{profile}"
