"""Jobs of random sizes through the scheduler, optimized and not: the EOS paper's figures 6 to 8, scaled.

The paper's jobs are of 100 MB, 256 MB, 512 MB, 1 GB and 5 GB, submitted one after the other; here they are a fiftieth of
that, on a path where one connection has less than an eighth of the link.
"""

import json
import random
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.runs.datasets import Dataset
from lab.eos.paths import CAP_MBIT, LINK_MBIT, Way
from lab.links.link import Link
from lab.links.percon import PerConnectionCap
from lab.ground.quiet import quiet
from lab.movers.runner import alone, clean, memory
from lab.runs.setting import Setting
from lab.ground.shell import CommandFailed
from lab.runs.trial import Command, Trial

SIZES = tuple(size // 50 for size in (100_000_000, 256_000_000, 512_000_000, 1_000_000_000, 5_000_000_000))
SEED = 1
PORT = 7118
PATIENCE_S = 1800.0
ENDS = {"done", "failed", "cancelled"}


def sizes(count: int) -> list[int]:
    rng = random.Random(SEED)
    return [rng.choice(SIZES) for _ in range(count)]


class Queue:
    """A service at the sender, told what to do by its own command."""

    def __init__(self, way: Way, state: Path, at_once: int) -> None:
        self.way, self.state = way, state
        way.trial.serve(Command(way.trial.link.sender, [places.tidegate_binary(), "serve", "--listen", f"127.0.0.1:{PORT}",
                                                        "--state", state, "--max-jobs", at_once]), PORT)

    def ask(self, *argv: object) -> Any:
        said = self.way.run(places.tidegate_binary(), *argv, "--json", "--state", self.state, "--server",
                            f"http://127.0.0.1:{PORT}")
        return json.loads(said)

    def stop(self) -> None:
        self.way.run("pkill", "-TERM", "-f", f"serve --listen 127.0.0.1:{PORT}")
        time.sleep(2.0)


def empty(directory: Path) -> None:
    """The endpoint holds its root open, so the root itself stays."""
    for inside in directory.iterdir():
        shutil.rmtree(inside) if inside.is_dir() else inside.unlink()


def one(way: Way, optimized: bool, at_once: int, wanted: list[int], turn: str) -> dict[str, Any]:
    """All jobs from the first submission to the last end; each moves a file of its own, verified."""
    empty(way.trial.destination)
    state = way.trial.scratch / f"service-{turn}"
    listed = [{"source": str(places.SOURCES / f"{size}.bin"), "destination": f"{way.ticket.rstrip('/')}/{i}/",
               "bytes": size, "optimization": optimized, "use_history": optimized} for i, size in enumerate(wanted)]
    file = way.trial.scratch / f"{turn}.json"
    file.write_text(json.dumps(listed))
    queue = Queue(way, state, at_once)
    try:
        with quiet():
            began = time.monotonic()
            queue.ask("submit", file)
            while True:
                counts = queue.ask("jobs", "--limit", 1)["counts"]
                if sum(counts.get(state, 0) for state in ENDS) == len(wanted):
                    break
                if time.monotonic() - began > PATIENCE_S:
                    raise CommandFailed(f"jobs did not end: {counts}")
                time.sleep(0.5)
            seconds = time.monotonic() - began
            if counts.get("done", 0) != len(wanted):
                raise CommandFailed(f"jobs failed: {json.dumps(queue.ask('jobs', '--limit', 1))[:2000]}")
    finally:
        queue.stop()
    return {"seconds": seconds, "rate_bps": sum(wanted) * 8 / seconds}


def measured(n: int, count: int) -> dict[str, Any]:
    wanted = sizes(count)
    with alone(), memory(), Link(LINK_MBIT) as link, Cgroup() as group, PerConnectionCap(group.path, CAP_MBIT):
        for directory in (places.DESTINATIONS, places.SCRATCH, places.SOURCES):
            clean(directory)
        rng = random.Random(SEED)
        for size in SIZES:
            (places.SOURCES / f"{size}.bin").write_bytes(rng.randbytes(size))
        trial = Trial(Setting("eos-jobs", "EOS"), link, group, Dataset("none", places.SCRATCH, 0, 0), places.DESTINATIONS,
                      places.SCRATCH)
        way = Way(trial)
        ways = {"plain": (False, 1), "optimized": (True, 1), "overlapping": (True, 8)}
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
        for repeat in range(n):
            for name, (optimized, at_once) in ways.items():
                runs[name].append(one(way, optimized, at_once, wanted, f"{name}-{repeat}"))
                print(f"{name} #{repeat}: {runs[name][-1]['rate_bps'] / 1e6:.0f} Mbit/s", flush=True)
    middle = {name: statistics.median(run["rate_bps"] for run in those) for name, those in runs.items()}
    return {"jobs": count, "seed": SEED, "n": n, "bytes": sum(wanted), "rate_bps": middle,
            "ratio": middle["optimized"] / middle["plain"], "ratio_overlapping": middle["overlapping"] / middle["plain"]}
