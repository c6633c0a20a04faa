"""Whether a destination holds what the source holds."""

import contextlib
import os
from pathlib import Path

PIECE = 4 << 20


def sizes(root: Path) -> dict[str, int]:
    """Relative path to size for every regular file below `root`."""
    found: dict[str, int] = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            # Whatever still runs may take its part files away meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found[os.path.relpath(path, root)] = os.stat(path).st_size
    return found


def same_bytes(one: Path, other: Path) -> bool:
    with open(one, "rb", buffering=0) as left, open(other, "rb", buffering=0) as right:
        while True:
            a, b = left.read(PIECE), right.read(PIECE)
            if a != b:
                return False
            if not a:
                return True


def difference(source: Path, destination: Path, content: bool) -> str | None:
    """None when the trees agree, else the first thing that differs. Sizes always, bytes if asked."""
    wanted, found = sizes(source), sizes(destination)
    if missing := sorted(wanted.keys() - found.keys()):
        return f"{len(missing)} of {len(wanted)} files missing, first {missing[0]}"
    if extra := sorted(found.keys() - wanted.keys()):
        return f"{len(extra)} files too many, first {extra[0]}"
    for path, size in sorted(wanted.items()):
        if found[path] != size:
            return f"{path} has {found[path]} bytes instead of {size}"
    if content:
        for path in sorted(wanted):
            if not same_bytes(source / path, destination / path):
                return f"{path} differs in content"
    return None


def wrong(source: Path, destination: Path) -> str | None:
    """None when every file that has its final name is right, however many are missing; hidden work is left out."""
    wanted = sizes(source)
    for path in sorted(sizes(destination)) if destination.is_dir() else ():
        if any(part.startswith(".tidegate") for part in Path(path).parts):
            continue
        if path not in wanted:
            return f"{path} is not one of the source"
        if not same_bytes(source / path, destination / path):
            return f"{path} differs in content"
    return None
