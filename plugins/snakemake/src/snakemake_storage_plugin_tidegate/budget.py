"""A budget of transfers for all processes of a workflow on a host: Snakemake runs each job's in one of its own."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# How often a slot is looked for, in seconds.
INTERVAL = 0.05

# How a file system says that it has no locks.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextmanager
def slot(directory: Path, slots: int) -> Iterator[None]:
    """Waits for one of so many slots, and holds it. Who dies gives his up."""
    directory.mkdir(parents=True, exist_ok=True)
    while True:
        for number in range(slots):
            file = os.open(directory / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            owner = None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                continue
            except OSError as error:
                os.close(file)
                file = None
                if error.errno not in NO_LOCKS:
                    raise
                owner = _own(directory, number)
                if owner is None:
                    continue
            try:
                yield
            finally:
                if owner is not None:
                    owner.unlink(missing_ok=True)
                if file is not None:
                    os.close(file)
            return
        time.sleep(INTERVAL)


def _own(directory: Path, number: int) -> Path | None:
    """A link that says which process of this run of this host has the slot, where there are no locks."""
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    path = directory / f"slot-{number}-{boot}"
    for _ in range(2):
        try:
            path.symlink_to(f"{os.getpid()} {_began('self')}")
            return path
        except FileExistsError:
            pass
        try:
            process, _, began = os.readlink(path).partition(" ")
        except FileNotFoundError:
            continue
        if _began(process) == began:
            return None
        path.unlink(missing_ok=True)
    return None


def _began(process: str) -> str:
    """When a process began that is not over, so that its number is not taken for it once another has that."""
    words = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return words[19] if len(words) > 19 and words[0] not in "ZX" else ""


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
