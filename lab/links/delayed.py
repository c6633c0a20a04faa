"""A path with a round-trip time, where the kernel has no netem: a relay between two TUN devices (delay.c)."""

from collections.abc import Sequence

from lab.ground import places
from lab.links.link import RECEIVER_ADDRESS, SENDER_ADDRESS, Link
from lab.ground.shell import CommandFailed, exists, run
from lab.ground.talk import Talker

PACKAGES = ("gcc", "libc6-dev", "linux-libc-dev", "iputils-ping", "iperf3")
# What the queue of the bottleneck holds at its rate where nothing else is said.
QUEUE_MS = 20


def missing() -> str | None:
    """Why it cannot be used here, or None."""
    return None if exists("cc") else "no C compiler is installed"


class DelayedLink(Link):
    """Two namespaces with a delay between them, a rate if any, and random loss if any.

    With `single`, packets pass one by one, which costs CPU: only they can be lost by chance, now or later, and only they
    share a queue that holds few super-packets. What it holds is told as the time it takes at the first rate.
    """

    def __init__(self, rtt_ms: float, rate_mbit: int = 0, loss: float = 0.0, seed: int = 1,
                 single: bool = False, queue_ms: float = QUEUE_MS) -> None:
        super().__init__(rate_mbit or None)
        self.rtt_ms = rtt_ms
        self.queue_ms = queue_ms
        self.loss = loss
        self.seed = seed
        self.single = single or loss > 0
        self.relay: Talker | None = None

    def argv(self, binary: object) -> list[str]:
        words: Sequence[object] = (binary, self.sender, self.receiver, "veth0", round(self.rtt_ms * 1000),
                                   self.rate_mbit or 0, f"{self.queue_ms:g}", round(self.loss * 1e6), self.seed,
                                   "single" if self.single else "super")
        return [str(word) for word in words]

    def build(self) -> None:
        if reason := missing():
            raise CommandFailed(f"no delayed path: {reason}")
        places.BUILD.joinpath("lab").mkdir(parents=True, exist_ok=True)
        binary = places.BUILD / "lab" / "delay"
        run(["cc", "-O2", "-pthread", "-o", binary, places.REPOSITORY / "lab" / "links" / "delay.c"])
        for namespace in (self.sender, self.receiver):
            run(["ip", "netns", "add", namespace])
        self.relay = Talker("the relay", self.argv(binary))
        self.end(self.sender, f"{SENDER_ADDRESS}/32", (f"{RECEIVER_ADDRESS}/32", "dev", "veth0"))
        self.end(self.receiver, f"{RECEIVER_ADDRESS}/32", (f"{SENDER_ADDRESS}/32", "dev", "veth0"))

    def shape(self, verb: str, rate_mbit: int) -> None:
        self.tell(f"rate {rate_mbit}")

    def lose(self, loss: float) -> None:
        """Another share of packets lost from now on."""
        if loss and not self.single:
            raise CommandFailed("this path passes super-packets, which are not lost one by one; make it single")
        self.tell(f"loss {round(loss * 1e6)}")

    def delay(self, rtt_ms: float) -> None:
        """Another round-trip time from now on; packets under way keep theirs, and their order."""
        self.tell(f"rtt {round(rtt_ms * 1000)}")
        self.rtt_ms = rtt_ms

    def tell(self, line: str) -> None:
        if self.relay is None:
            raise CommandFailed("the path is not there yet")
        self.relay.tell(line)

    def remove(self) -> None:
        if self.relay is not None:
            self.relay.close()
            self.relay = None
        super().remove()
