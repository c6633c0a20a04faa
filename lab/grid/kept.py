"""Where what takes long to make is kept: one file for each build of the program and all that it is made of."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from lab.ground import places


def kept(name: str, end: str, made_of: Sequence[object]) -> Path:
    """The file's path, in a directory that exists; the name says what it is, the rest of it what it is made of."""
    stamp = hashlib.blake2b(json.dumps(made_of).encode(), digest_size=6).hexdigest()
    directory = places.BUILD / "lab" / "policies"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{name}-{stamp}.{end}"
