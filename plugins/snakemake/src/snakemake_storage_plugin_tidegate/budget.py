"""A budget of transfers for all processes of a workflow on a host: Snakemake runs each job's in one of its own."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# How often a slot is looked for, in seconds.
INTERVAL = 0.05


@contextmanager
def slot(directory: Path, slots: int) -> Iterator[None]:
    """Waits for one of so many slots, and holds it. Who dies gives his up."""
    directory.mkdir(parents=True, exist_ok=True)
    while True:
        for number in range(slots):
            file = os.open(directory / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                continue
            try:
                yield
            finally:
                os.close(file)
            return
        time.sleep(INTERVAL)
