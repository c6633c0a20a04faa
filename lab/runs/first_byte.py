"""When the first byte of a file is at its destination, under whatever name: looked for every millisecond or so."""

import contextlib
import threading
import time
from pathlib import Path
from typing import Self

from lab.runs.verify import same_bytes, sizes

EVERY_S = 0.001


class FirstByte:
    """Context manager: `seconds` from its beginning until the content of the one file below `source` is below
    `destination`; None where that never was. The file is so small that it arrives whole."""

    def __init__(self, source: Path, destination: Path) -> None:
        (self.file, self.size), = ((source / path, size) for path, size in sizes(source).items())
        self.destination = destination
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look, name="first byte", daemon=True)
        self.seconds: float | None = None

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def look(self) -> None:
        while not self.over.wait(EVERY_S):
            if self.is_there():
                self.seconds = time.monotonic() - self.began
                return

    def is_there(self) -> bool:
        for path, size in sizes(self.destination).items():
            # It may get another name at this moment.
            with contextlib.suppress(FileNotFoundError):
                if size == self.size and same_bytes(self.file, self.destination / path):
                    return True
        return False
