"""One program on its own: how much memory it holds, and what arrives meanwhile."""

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

EVERY_S = 0.1
LEAVING_S = 60.0
KIB = 1024


@dataclass(frozen=True)
class Watched:
    """How a program ended: its status (negative for a signal), how long it took, the most memory it held."""

    status: int
    seconds: float
    peak_bytes: int
    stopped: bool


def peak(status: str) -> int:
    """The high-water mark of resident memory, in bytes, from the text of /proc/PID/status; 0 where there is none."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * KIB
    return 0


class Peak(threading.Thread):
    """Looks at a process until it is gone. The mark is the kernel's, so nothing between two looks is missed but the
    last moments."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="peak", daemon=True)
        self.path = Path(f"/proc/{pid}/status")
        self.bytes = 0
        self.start()

    def run(self) -> None:
        while True:
            try:
                seen = peak(self.path.read_text())
            except OSError:
                return
            if seen == 0 and self.bytes > 0:
                return
            self.bytes = max(self.bytes, seen)
            time.sleep(EVERY_S)


class Lookout:
    """Context manager: looks again and again, on a thread of its own, until it has seen enough or the block is over."""

    every_s = EVERY_S

    def __init__(self) -> None:
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name="lookout", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def run(self) -> None:
        while not self.over.wait(self.every_s):
            if self.has_seen_enough():
                return

    def has_seen_enough(self) -> bool:
        """Looks once."""
        raise NotImplementedError


class GroupPeak(Lookout):
    """The most memory that any one process of a control group held, one at a time."""

    def __init__(self, group: Path) -> None:
        super().__init__()
        self.processes = group / "cgroup.procs"
        self.bytes = 0

    def has_seen_enough(self) -> bool:
        for pid in self.processes.read_text().split():
            # It may end meanwhile.
            with contextlib.suppress(OSError):
                self.bytes = max(self.bytes, peak(Path(f"/proc/{pid}/status").read_text()))
        return False


def watch(process: subprocess.Popen[bytes], timeout_s: float, stop: Callable[[], bool] | None = None,
          how: signal.Signals = signal.SIGINT) -> Watched:
    """Waits for a program; sends it a signal when `stop` says so or the time is over."""
    began, stopped, seen = time.monotonic(), False, Peak(process.pid)
    while process.poll() is None:
        over = time.monotonic() - began > timeout_s
        if over or (stop is not None and stop()):
            stopped = True
            process.send_signal(how)
            try:
                process.wait(LEAVING_S)
            except subprocess.TimeoutExpired:
                process.kill()
        time.sleep(EVERY_S / 2)
    status = process.wait()
    return Watched(status, time.monotonic() - began, seen.bytes, stopped)
