"""Hosts of a site, as network and UTS namespaces: a head without a limit, and nodes with a link each of its own.

The head is a bridge at 10.78.0.1 where controller, database, service and destination run; node i is at 10.78.0.(9 + i). A
node's link is a token bucket (tbf) in either direction. Nothing leaves these namespaces.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from lab.ground.shell import run
from lab.links.link import allow_cubic, bucket

HEAD_ADDRESS = "10.78.0.1"
QUEUE_BYTES = 8_000_000


@dataclass(frozen=True)
class Host:
    """A host: what it calls itself, and where it is."""

    name: str
    namespace: str
    address: str

    def argv(self, command: Sequence[object]) -> list[str]:
        """A command as it runs there, under the host's name. Mounts that it makes are its own."""
        words = shlex.join(str(word) for word in command)
        return ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "--mount", "sh", "-c",
                f"hostname {self.name}; exec {words}"]

    def run(self, *command: object) -> str:
        return run(self.argv(command))

    def processes(self) -> list[int]:
        """All that run there."""
        return [int(pid) for pid in run(["ip", "netns", "pids", self.namespace], check=False).split()]

    def kill_all(self) -> None:
        """Ends everything that runs there, at once."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start(self, *command: object, log: IO[bytes] | int = subprocess.DEVNULL,
              environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A daemon there, with whatever it begins in a session of its own."""
        return subprocess.Popen(self.argv(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                env=environment, start_new_session=True)


class Site:
    """Context manager: a head, and a node for each rate in Mbit/s."""

    def __init__(self, rates_mbit: Sequence[int]) -> None:
        prefix = f"tgf{os.getpid()}"
        self.rates_mbit = tuple(rates_mbit)
        self.head = Host("head", f"{prefix}-head", HEAD_ADDRESS)
        self.nodes = [Host(f"n{i}", f"{prefix}-n{i}", f"10.78.0.{9 + i}") for i in range(1, len(self.rates_mbit) + 1)]

    def __enter__(self) -> Self:
        allow_cubic()
        try:
            self.build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def build(self) -> None:
        for host in (self.head, *self.nodes):
            run(["ip", "netns", "add", host.namespace])
            directory = Path("/etc/netns") / host.namespace
            directory.mkdir(parents=True, exist_ok=True)
            names = "".join(f"{each.address} {each.name}\n" for each in (self.head, *self.nodes))
            (directory / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
            ip(host, "link", "set", "lo", "up")
            run(["ip", "netns", "exec", host.namespace, "sysctl", "-q", "-w", "net.ipv4.tcp_congestion_control=cubic"])
        ip(self.head, "link", "add", "bridge", "type", "bridge")
        ip(self.head, "address", "add", f"{HEAD_ADDRESS}/24", "dev", "bridge")
        ip(self.head, "link", "set", "bridge", "up")
        for host, rate_mbit in zip(self.nodes, self.rates_mbit):
            run(["ip", "link", "add", "uplink", "netns", host.namespace,
                 "type", "veth", "peer", "name", host.name, "netns", self.head.namespace])
            ip(host, "address", "add", f"{host.address}/24", "dev", "uplink")
            ip(host, "link", "set", "uplink", "up")
            ip(self.head, "link", "set", host.name, "master", "bridge", "up")
            bucket(host.namespace, "uplink", "replace", rate_mbit, QUEUE_BYTES)
            bucket(self.head.namespace, host.name, "replace", rate_mbit, QUEUE_BYTES)

    def received_bytes(self, host: Host) -> int:
        """What has come from that node so far, as the head's end of its link counts it."""
        said = run(["ip", "netns", "exec", self.head.namespace, "cat", f"/sys/class/net/{host.name}/statistics/rx_bytes"])
        return int(said)

    def remove(self) -> None:
        for host in (self.head, *self.nodes):
            # What still runs there would keep its links.
            host.kill_all()
            run(["ip", "netns", "delete", host.namespace], check=False)
            shutil.rmtree(Path("/etc/netns") / host.namespace, ignore_errors=True)


def ip(host: Host, *words: object) -> None:
    run(["ip", "-n", host.namespace, *words])
