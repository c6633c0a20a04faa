"""One stream, four, and `auto`, where the kernel stops at 64 KiB of a buffer by itself, and where it has room.

The kernel's bounds of what a program may ask for (`wmem_max`, `rmem_max`) belong to the machine and stay as they are.
"""

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lab.eos.site import Limits, Way, way
from lab.eos.task import Outcome, Plan, Task, counted, run_all
from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.ground.shell import CommandFailed
from lab.links.delayed import DelayedLink
from lab.links.link import LARGEST_WINDOW, Link
from lab.shard import Shard

SHARD, REPEATS = "buffers", 3
RTT_MS, LINK_MBIT, PROBED_S = 100, 200, 15
SMALL_KIB = 64
SMALL, USUAL = f"{SMALL_KIB} KiB at most", "up to 32 MiB"
RULES = {"one stream": "fixed:1", "four streams": "fixed:4", "auto": "auto"}


def asked() -> dict[str, int]:
    """What a program may ask for here, in bytes."""
    return {name: int((Path("/proc/sys/net/core") / name).read_text()) for name in ("wmem_max", "rmem_max")}


def bounded(link: Link, most: int) -> None:
    """Lets the kernel of both ends come to so much of a buffer by itself; new connections begin with no more."""
    for namespace in (link.sender, link.receiver):
        link.inside(namespace, "sysctl", "-q", "-w", *(f"net.ipv4.{name}=4096 {min(most, 131072)} {most}"
                                                      for name in ("tcp_rmem", "tcp_wmem")))


@contextlib.contextmanager
def far() -> Iterator[tuple[Link, Cgroup]]:
    with DelayedLink(RTT_MS, LINK_MBIT) as link, Cgroup() as group:
        yield link, group


def probed(most: int, rule: str, where: tuple[Link, Cgroup], repeat: int) -> Outcome:
    link, group = where
    bounded(link, most)
    # Listening sockets hand on what held when they were made, so the endpoint is a new one for each run.
    there: Way = way(link, group, Limits(LINK_MBIT, LINK_MBIT))
    try:
        with there.watched() as notes:
            began = time.monotonic()
            said = there.ours("probe", there.ticket, "--optimizer", rule, "--time", f"{PROBED_S}s")
            seconds = time.monotonic() - began
        notes |= asked()
        # The second half, when nothing rises any more.
        late = [epoch for epoch in said["epochs"] if epoch["t_ms"] > PROBED_S * 500]
        moved = sum(epoch["throughput_bps"]["network"] * epoch["interval_ms"] / 8000 for epoch in late)
        over_s = sum(epoch["interval_ms"] for epoch in late) / 1000
        if not over_s:
            raise CommandFailed("the probe had no epochs")
        notes |= {"late_bps": moved * 8 / over_s, "streams": late[-1]["concurrency"]["network"]}
        return Outcome(seconds, said["bytes"], notes)
    finally:
        group.kill()


TASKS = [Task(name, column, PROBED_S + 3.0, partial(probed, most, rule))
         for name, most in ((SMALL, SMALL_KIB << 10), (USUAL, LARGEST_WINDOW)) for column, rule in RULES.items()]
PLAN = Plan(SHARD, far, TASKS, REPEATS)
SHARDS = (Shard(SHARD, "small buffers far away", round(REPEATS * sum(task.expected_s for task in TASKS) / 60),
                partial(run_all, PLAN), partial(counted, PLAN)),)
