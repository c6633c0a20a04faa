"""When the first byte of a file is at its destination, under whatever name: looked for every millisecond or so."""

import contextlib
import time
from pathlib import Path
from typing import Self

from lab.ground.watch import Lookout
from lab.runs.verify import same_bytes, sizes


class FirstByte(Lookout):
    """`seconds` from its beginning until the content of the one file below `source` is below `destination`; None where
    that never was. The file is so small that it arrives whole."""

    every_s = 0.001

    def __init__(self, source: Path, destination: Path) -> None:
        super().__init__()
        (self.file, self.size), = ((source / path, size) for path, size in sizes(source).items())
        self.destination = destination
        self.seconds: float | None = None

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        return super().__enter__()

    def has_seen_enough(self) -> bool:
        if not self.is_there():
            return False
        self.seconds = time.monotonic() - self.began
        return True

    def is_there(self) -> bool:
        for path, size in sizes(self.destination).items():
            # It may get another name at this moment.
            with contextlib.suppress(FileNotFoundError):
                if size == self.size and same_bytes(self.file, self.destination / path):
                    return True
        return False
