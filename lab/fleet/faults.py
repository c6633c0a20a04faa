"""What goes wrong while many hosts move one data set."""

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from lab.fleet.site import Fleet

# Longer than a lease lasts, and shorter than the run.
PAUSE_S = 66.0


@dataclass(frozen=True)
class Fault:
    """Something that happens at a time that a seed chooses."""

    name: str
    title: str
    do: Callable[[Fleet, random.Random], None]


def mover_killed(fleet: Fleet, rng: random.Random) -> None:
    fleet.signal(rng.choice(fleet.site.nodes), signal.SIGKILL)


def mover_paused(fleet: Fleet, rng: random.Random) -> None:
    host = rng.choice(fleet.site.nodes)
    fleet.signal(host, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    fleet.signal(host, signal.SIGCONT)


def host_killed(fleet: Fleet, rng: random.Random) -> None:
    rng.choice(fleet.site.nodes).kill_all()


def node_killed(fleet: Fleet, rng: random.Random) -> None:
    fleet.slurm.kill(rng.choice(fleet.site.nodes).name)


def controller_killed(fleet: Fleet, rng: random.Random) -> None:
    fleet.slurm.kill("head")
    time.sleep(rng.uniform(1, 5))
    fleet.slurm.start_controller()


def database_restarted(fleet: Fleet, rng: random.Random) -> None:
    fleet.database.kill()
    time.sleep(rng.uniform(0, 3))
    fleet.database.start()


# Of movers that something else than Slurm has started.
HOST_KILLED = Fault("host-killed", "kill -9 of everything on one host", host_killed)
FAULTS = {fault.name: fault for fault in (
    Fault("mover-killed", "kill -9 of a mover", mover_killed),
    Fault("mover-paused", f"a mover stopped for {PAUSE_S:.0f} s, longer than its lease, then continued", mover_paused),
    Fault("node-killed", "kill -9 of a node's slurmd and of everything on the node", node_killed),
    Fault("controller-killed", "kill -9 of slurmctld, which is started again", controller_killed),
    Fault("database-restarted", "kill -9 of PostgreSQL, which is started again", database_restarted),
)}


class Happening(threading.Thread):
    """Has a fault happen within some seconds after all movers run. `error` says why it has not."""

    def __init__(self, fault: Fault, fleet: Fleet, movers: int, seed: int, within_s: float) -> None:
        super().__init__(name=fault.name, daemon=True)
        self.fault, self.fleet, self.movers = fault, fleet, movers
        self.rng, self.within_s = random.Random(seed), within_s
        self.error: str | None = "the run was over before the fault was"
        self.start()

    def run(self) -> None:
        try:
            self.fleet.wait_for_movers(self.movers)
            time.sleep(self.rng.uniform(1, self.within_s))
            self.fault.do(self.fleet, self.rng)
            self.error = None
        except Exception as failure:  # the run itself tells whether it matters
            self.error = f"{type(failure).__name__}: {failure}"
