"""What arrives at the far end of a path, second by second, as its interface counts it: for programs that tell of a transfer
no more than how long it took. Headers and what is sent twice are in these counts, the same share of every second; so they
are scaled to what the transfer moved."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from lab.ground.shell import CommandFailed
from lab.runs.trial import Command, Trial

# Both count from the start of the host.
COUNTING = "while cat /proc/uptime /proc/net/dev; do sleep 0.1; done"


@dataclass(frozen=True)
class Count:
    """So many bytes until so many seconds after the host was started."""

    at: float
    received: int


@dataclass
class Arrivals:
    began: float
    ended: float = 0.0
    counts: list[Count] = field(default_factory=list)

    def bps(self, size: int, start_s: float, for_s: float) -> float:
        """The rate of `for_s` after the first `start_s`, of a transfer of `size` bytes that takes longer."""
        if self.ended < self.began + start_s + for_s:
            raise CommandFailed(f"{self.ended - self.began:.1f} s are too few for {for_s:g} after the first {start_s:g}")
        since = self.began + start_s
        within = [count for count in self.counts if since <= count.at <= since + for_s]
        if len(within) < 2:
            raise CommandFailed(f"{len(within)} counts in {for_s:g} s are no rate")
        first, last = within[0], within[-1]
        scale = size / (self.counts[-1].received - self.counts[0].received)
        return (last.received - first.received) * 8 * scale / (last.at - first.at)


def parsed(text: str) -> list[Count]:
    """What `COUNTING` printed; what it was stopped in the middle of does not count."""
    counts: list[Count] = []
    at, received = None, 0
    for line in text.splitlines():
        words = line.split()
        if "|" in line or len(words) < 2:
            continue
        if not words[0].endswith(":"):
            if at is not None:
                counts.append(Count(at, received))
            at, received = float(words[0]), 0
        elif words[0] != "lo:":
            received += int(words[1])
    return counts


@contextlib.contextmanager
def arrivals(trial: Trial, namespace: str) -> Iterator[Arrivals]:
    """Counts what arrives in `namespace` while it lasts, which is as long as a transfer does."""
    counter = trial.start(Command(namespace, ["sh", "-c", COUNTING]), "arriving")
    try:
        time.sleep(0.3)
        found = Arrivals(now())
        yield found
        found.ended = now()
        time.sleep(0.3)
    finally:
        # What it has started would still write, into the file of the next one.
        os.killpg(counter.pid, signal.SIGKILL)
        counter.wait()
    found.counts = parsed((trial.scratch / "arriving.out").read_text())


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
