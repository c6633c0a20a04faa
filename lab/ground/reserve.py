"""Memory for a copy's destination that is warm already.

A virtual machine may give free memory back to its host. To take it again costs several times what writing to it does,
more the longer a run lasts, and every mover pays for what no mover does. So memory of the destination's size is held in a
file; while a copy grows the file shrinks, a little ahead of it, and what is copied lands in pages that were just freed.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from lab.ground import places

# How far the file is ahead of the copy, and how often it looks.
AHEAD, LOOK_S = 256 << 20, 0.01
ZEROS = memoryview(bytes(4 << 20))


def available() -> int:
    """Bytes that could be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def used(descriptor: int) -> int:
    """Bytes in use on the file system."""
    there = os.fstatvfs(descriptor)
    return (there.f_blocks - there.f_bfree) * there.f_frsize


class Reserve:
    """Holds `size` bytes, or half of what is available, less what a copy takes meanwhile."""

    def __init__(self, size: int) -> None:
        self.size = min(size, available() // 2)
        self.held = 0

    def __enter__(self) -> Self:
        places.MEMORY.mkdir(parents=True, exist_ok=True)
        self.file = os.open(places.MEMORY / "reserve", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.before = used(self.file)
        self.fill()
        return self

    def __exit__(self, *_: object) -> None:
        os.ftruncate(self.file, 0)
        os.close(self.file)

    def room(self) -> int:
        """What it should hold: its size, less what came besides."""
        return max(0, self.size - max(0, used(self.file) - self.held - self.before))

    def fill(self) -> None:
        """Takes what it may; at once after a destination was removed, what that gave back is still warm."""
        if (room := self.room()) > self.held:
            # Written, not just allocated: only that fetches it from the host.
            while self.held < room:
                self.held += os.pwrite(self.file, ZEROS[:room - self.held], self.held)

    def give_way(self) -> None:
        """Gives up what a copy has taken or is about to."""
        if (room := max(0, self.room() - AHEAD)) < self.held:
            os.ftruncate(self.file, room)
            self.held = room

    @contextlib.contextmanager
    def giving(self) -> Iterator[None]:
        """Makes way for a copy for as long as the block runs."""
        over = threading.Event()

        def give() -> None:
            while not over.wait(LOOK_S):
                self.give_way()

        self.fill()
        self.give_way()
        giver = threading.Thread(target=give, daemon=True)
        if self.size:
            giver.start()
        try:
            yield
        finally:
            over.set()
            if giver.is_alive():
                giver.join()
