"""Two network namespaces joined by a veth pair: a path of its own, so nothing else is measured.

The sender lives in one namespace at 10.99.0.1, the receiver in the other at 10.99.0.2. TCP runs cubic
at MTU 1500. A total rate is a token bucket (tbf) on both ends.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Protocol, Self

from lab.ground.shell import CommandFailed, run

SENDER_ADDRESS = "10.99.0.1"
RECEIVER_ADDRESS = "10.99.0.2"
LARGEST_WINDOW = 32 << 20


class Ends(Protocol):
    """All that a transfer must know of a path: the namespaces of its ends."""

    sender: str
    receiver: str


class Link:
    """Context manager: the namespaces live as long as the `with` block."""

    def __init__(self, rate_mbit: int | None = None) -> None:
        self.rate_mbit = rate_mbit
        self.sender = f"tglab-{os.getpid()}-a"
        self.receiver = f"tglab-{os.getpid()}-b"

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
        run(["ip", "netns", "add", self.sender])
        run(["ip", "netns", "add", self.receiver])
        run(["ip", "link", "add", "veth0", "mtu", 1500, "netns", self.sender,
             "type", "veth", "peer", "name", "veth0", "mtu", 1500, "netns", self.receiver])
        self.end(self.sender, f"{SENDER_ADDRESS}/24")
        self.end(self.receiver, f"{RECEIVER_ADDRESS}/24")
        if self.rate_mbit is not None:
            self.shape("replace", self.rate_mbit)
        self.wait()

    def end(self, namespace: str, address: str, *routes: tuple[str, ...]) -> None:
        """Makes a namespace that has its device an end of the path."""
        for words in (("address", "add", address, "dev", "veth0"), ("link", "set", "lo", "up"),
                      ("link", "set", "veth0", "up"), *(("route", "add", *route) for route in routes)):
            self.inside(namespace, "ip", *words)
        self.inside(namespace, "sysctl", "-q", "-w", "net.ipv4.tcp_congestion_control=cubic",
                    f"net.ipv4.tcp_rmem=4096 131072 {LARGEST_WINDOW}",
                    f"net.ipv4.tcp_wmem=4096 131072 {LARGEST_WINDOW}")
        own_etc(namespace)

    def wait(self) -> None:
        for _ in range(50):
            if "UP" in run(["ip", "-n", self.receiver, "-br", "link", "show", "veth0"]).split():
                return
            time.sleep(0.02)
        raise CommandFailed("the veth pair did not come up within a second")

    def change(self, rate_mbit: int) -> None:
        """Another rate from now on; what is queued stays queued."""
        self.shape("change", rate_mbit)

    def shape(self, verb: str, rate_mbit: int) -> None:
        for namespace in (self.sender, self.receiver):
            bucket(namespace, "veth0", verb, rate_mbit, 8_000_000)

    def remove(self) -> None:
        for namespace in (self.sender, self.receiver):
            run(["ip", "netns", "delete", namespace], check=False)
            shutil.rmtree(Path("/etc/netns") / namespace, ignore_errors=True)

    @staticmethod
    def inside(namespace: str, *command: object) -> str:
        return run(["ip", "netns", "exec", namespace, *command])


def bucket(namespace: str, device: str, verb: str, rate_mbit: int, queue: int) -> None:
    """Adds or changes a token bucket with a queue of so many bytes."""
    burst = max(rate_mbit * 1_000_000 // 8 // 500, 100_000)
    Link.inside(namespace, "tc", "qdisc", verb, "dev", device, "root", "tbf",
                "rate", f"{rate_mbit}mbit", "burst", burst, "limit", queue)


def own_etc(namespace: str) -> None:
    """Files that `ip netns exec` lays over /etc inside the namespace only.

    The addresses get names, without which GridFTP does not start. Root logs in with a plain shell and no
    start-up files, so that a slow profile on this machine is not charged to the tools that use ssh.
    """
    directory = Path("/etc/netns") / namespace
    directory.mkdir(parents=True, exist_ok=True)
    own = run(["hostname"]).strip()
    local = SENDER_ADDRESS if namespace.endswith("-a") else RECEIVER_ADDRESS
    (directory / "hosts").write_text(
        f"127.0.0.1 localhost\n{SENDER_ADDRESS} sender\n{RECEIVER_ADDRESS} receiver\n{local} {own}\n")
    users = Path("/etc/passwd").read_text().splitlines()
    users = [line for line in users if not line.startswith("root:")]
    (directory / "passwd").write_text("\n".join(["root:x:0:0:root:/:/bin/sh", *users]) + "\n")


def allow_cubic() -> None:
    """A child namespace may choose only among the algorithms that the first one allows."""
    key = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    allowed = key.read_text().split()
    if "cubic" not in allowed:
        key.write_text(" ".join([*allowed, "cubic"]))
