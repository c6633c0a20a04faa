"""A path whose bottleneck is a router between the ends, where transfers meet as they do on a network.

On `Link` the token bucket is the sender's own, and Linux keeps a connection from queueing more than a few
packets there (TCP small queues): nothing is dropped, those that came first keep what they have, and 32 new
streams get a tenth of what 10 old ones do. A router's queue overflows, and congestion control shares.
"""

import os

from lab.links.link import RECEIVER_ADDRESS, SENDER_ADDRESS, Link, bucket
from lab.ground.shell import run

ROUTER_ADDRESS = "10.99.0.254"
# What the queue holds at the full rate.
QUEUE_MS = 10


class RoutedLink(Link):
    """Sender, router and receiver in a namespace each; the rate is the router's."""

    def __init__(self, rate_mbit: int) -> None:
        super().__init__(rate_mbit)
        self.full_rate_mbit = rate_mbit
        self.router = f"tglab-{os.getpid()}-r"

    def build(self) -> None:
        run(["ip", "netns", "add", self.router])
        self.inside(self.router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        for namespace, address, port in ((self.sender, SENDER_ADDRESS, "veth1"),
                                         (self.receiver, RECEIVER_ADDRESS, "veth2")):
            run(["ip", "netns", "add", namespace])
            run(["ip", "link", "add", "veth0", "mtu", 1500, "netns", namespace,
                 "type", "veth", "peer", "name", port, "mtu", 1500, "netns", self.router])
            self.inside(self.router, "ip", "address", "add", f"{ROUTER_ADDRESS}/32", "dev", port)
            self.inside(self.router, "ip", "link", "set", port, "up")
            self.inside(self.router, "ip", "route", "add", f"{address}/32", "dev", port)
            self.end(namespace, f"{address}/32", (f"{ROUTER_ADDRESS}/32", "dev", "veth0"),
                     ("default", "via", ROUTER_ADDRESS))
        self.shape("replace", self.full_rate_mbit)
        self.wait()

    def shape(self, verb: str, rate_mbit: int) -> None:
        queue = self.full_rate_mbit * 1_000_000 // 8 * QUEUE_MS // 1000
        for port in ("veth1", "veth2"):
            bucket(self.router, port, verb, rate_mbit, queue)

    def remove(self) -> None:
        super().remove()
        run(["ip", "netns", "delete", self.router], check=False)
