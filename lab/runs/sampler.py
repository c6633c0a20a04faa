"""What arrives and over how many connections, four times a second, read in the receiver's namespace.

The same for every contender, so none is taken at its word.
"""

import ctypes
import os
import threading
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

EVERY_S = 0.25
CLONE_NEWNET = 0x40000000
ESTABLISHED = "01"
# The kernel writes addresses as little-endian words: 127.0.0.1, and IPv4 addresses mapped to IPv6.
LOOPBACK = "0100007F:"
MAPPED, MAPPED_LOOPBACK = "0000000000000000FFFF0000", "0000000000000000FFFF00000100007F"
THREAD = Path("/proc/thread-self/net")

# Seconds since the start, bytes that arrived since then, connections there are.
Sample = tuple[float, int, int]


def received(table: str, device: str) -> int:
    """Bytes a device has received, from the text of /proc/net/dev."""
    for line in table.splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == device:
            return int(counters.split()[0])
    raise ValueError(f"no device {device}")


def connections(table: str, ports: Collection[int] | None) -> int:
    """Established connections to these remote ports, or to any on another machine, from the text of /proc/net/tcp."""
    count = 0
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] != ESTABLISHED:
            continue
        if ports is None:
            count += not fields[2].startswith(LOOPBACK)
        else:
            count += int(fields[2].rpartition(":")[2], 16) in ports
    return count


def networks(table: str, ipv6: str, ports: Collection[int] | None) -> int:
    """Both tables: a program may listen for IPv6 and be reached by IPv4."""
    return connections(table, ports) + sum(
        1 for line in ipv6.splitlines()[1:]
        if (fields := line.split())[3] == ESTABLISHED and MAPPED in fields[2] and MAPPED_LOOPBACK not in fields[2]
        and (ports is None or int(fields[2].rpartition(":")[2], 16) in ports))


class Sampler:
    """Context manager: takes samples while the block runs."""

    def __init__(self, namespace: str, ports: Collection[int] | None = None, device: str = "veth0") -> None:
        self.namespace = namespace
        self.ports = ports
        self.device = device
        self.samples: list[Sample] = []
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, name="sampler")

    def __enter__(self) -> "Sampler":
        self.thread.start()
        self.ready.wait()
        self.raise_error()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
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
        self.samples.append((0.0, 0, 0))
        self.ready.set()
        while not self.stop.wait(max(0.0, begin + len(self.samples) * EVERY_S - time.monotonic())):
            bytes_, open_ = self.read()
            self.samples.append((round(time.monotonic() - begin, 3), bytes_ - first, open_))
        bytes_, open_ = self.read()
        self.samples.append((round(time.monotonic() - begin, 3), bytes_ - first, open_))

    def read(self) -> tuple[int, int]:
        return (received((THREAD / "dev").read_text(), self.device),
                networks((THREAD / "tcp").read_text(), six(), self.ports))


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
