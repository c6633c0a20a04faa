"""What arrives and over how many connections, four times a second, read in the receiver's namespace.

The same for every contender, so none is taken at its word.
"""

import ctypes
import os
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

EVERY_S = 0.25
CLONE_NEWNET = 0x40000000
ESTABLISHED = "01"
# The kernel writes addresses as little-endian words: 127.0.0.1, and IPv4 addresses mapped to IPv6.
LOOPBACK = "0100007F:"
MAPPED, MAPPED_LOOPBACK = "0000000000000000FFFF0000", "0000000000000000FFFF00000100007F"
THREAD = Path("/proc/thread-self/net")

# IPv4 and TCP with timestamps. What passes whole between namespaces pays it once for up to 64 KB.
HEADERS = 52
# Seconds since the start, bytes that arrived since then, connections there are.
Sample = tuple[float, int, int]
# Seconds since the start, and bytes that other traffic moved since then.
Other = tuple[float, int]


def arrived(samples: Sequence[Sample], second: float) -> float:
    """Bytes that had arrived by then, between samples in proportion."""
    before = samples[0]
    for sample in samples:
        if sample[0] >= second:
            length = sample[0] - before[0]
            part = (second - before[0]) / length if length > 0 else 0.0
            return before[1] + (sample[1] - before[1]) * part
        before = sample
    return float(samples[-1][1])


def counts(table: str, device: str) -> tuple[int, int]:
    """Bytes and packets a device has received."""
    for line in table.splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == device:
            bytes_, packets = counters.split()[:2]
            return int(bytes_), int(packets)
    raise ValueError(f"no device {device}")


def without_headers(bytes_: int, packets: int) -> int:
    return bytes_ - packets * HEADERS


def connections(table: str, ports: Collection[int] | None, besides: int | None = None) -> int:
    """Established connections to these remote ports, or to any on another machine, from the text of /proc/net/tcp.

    Those to the local port `besides` are not counted.
    """
    count = 0
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] != ESTABLISHED or (besides is not None and int(fields[1].rpartition(":")[2], 16) == besides):
            continue
        if ports is None:
            count += not fields[2].startswith(LOOPBACK)
        else:
            count += int(fields[2].rpartition(":")[2], 16) in ports
    return count


def networks(table: str, ipv6: str, ports: Collection[int] | None, besides: int | None = None) -> int:
    """Both tables: a program may listen for IPv6 and be reached by IPv4."""
    return connections(table, ports, besides) + sum(
        1 for line in ipv6.splitlines()[1:]
        if (fields := line.split())[3] == ESTABLISHED and MAPPED in fields[2] and MAPPED_LOOPBACK not in fields[2]
        and (ports is None or int(fields[2].rpartition(":")[2], 16) in ports))


def others(samples: Sequence[Sample], begun_s: float, theirs: Sequence[Sample]) -> list[Other]:
    """What other traffic had moved at the time of each sample; the samples began at that moment of its clock."""
    if not theirs:
        return []
    first = arrived(theirs, begun_s)
    return [(second, round(arrived(theirs, begun_s + second) - first)) for second, _, _ in samples]


def without(samples: Sequence[Sample], foreign: Sequence[Other]) -> list[Sample]:
    """The samples of everybody else.

    What waits in a socket has arrived and is not counted by its program yet, so for a moment they may fall.
    """
    if not foreign:
        return list(samples)
    return [(second, bytes_ - taken, open_) for (second, bytes_, open_), (_, taken) in zip(samples, foreign)]


class Sampler:
    """Context manager: takes samples while the block runs."""

    def __init__(self, namespace: str, ports: Collection[int] | None = None, device: str = "veth0",
                 besides: int | None = None, content: bool = False, every_s: float = EVERY_S) -> None:
        self.namespace = namespace
        self.ports = ports
        self.device = device
        # The port here that other traffic comes to, if there is any: its connections are not counted.
        self.besides = besides
        # Whether headers are left out: a bottleneck may or may not cut what passes into single packets.
        self.content = content
        self.every_s = every_s
        self.samples: list[Sample] = []
        # When the samples begin, on the monotonic clock.
        self.begun = 0.0
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, name="sampler")

    def __enter__(self) -> "Sampler":
        self.thread.start()
        self.ready.wait()
        self.raise_error()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        if kind is None:
            self.raise_error()

    def raise_error(self) -> None:
        if self.error is not None:
            raise OSError(f"no samples in {self.namespace}: {self.error}")

    def run(self) -> None:
        try:
            enter(self.namespace)
            self.watch()
        except (OSError, ValueError) as failure:
            self.error = failure
        finally:
            self.ready.set()

    def watch(self) -> None:
        begin, first = time.monotonic(), self.read()[0]
        self.begun = begin
        self.samples.append((0.0, 0, 0))
        self.ready.set()
        while not self.stop.wait(max(0.0, begin + len(self.samples) * self.every_s - time.monotonic())):
            bytes_, open_ = self.read()
            self.samples.append((round(time.monotonic() - begin, 3), bytes_ - first, open_))
        bytes_, open_ = self.read()
        self.samples.append((round(time.monotonic() - begin, 3), bytes_ - first, open_))

    def read(self) -> tuple[int, int]:
        bytes_, packets = counts((THREAD / "dev").read_text(), self.device)
        return (without_headers(bytes_, packets) if self.content else bytes_,
                networks((THREAD / "tcp").read_text(), six(), self.ports, self.besides))


def six() -> str:
    try:
        return (THREAD / "tcp6").read_text()
    except OSError:
        return ""


def enter(namespace: str) -> None:
    """Moves the calling thread alone into a network namespace; it must not come back."""
    with open(f"/run/netns/{namespace}", "rb") as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
