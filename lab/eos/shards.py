"""Estimates and the service: docs/results/eos.md. Each part is measured as a whole and kept in one file."""

import json
from collections.abc import Callable
from typing import Any

from lab.eos import jobs, kills, load, paths, queue, report
from lab.ground import places
from lab.ground.shell import CommandFailed
from lab.rivals.tidegate import Tidegate
from lab.shard import Options, Page, Shard

PAGE = "eos"
RESULTS = places.BUILD / "lab" / "eos.json"
REPEATS = 5
JOBS = 100


def recalled() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def shard(part: str, title: str, minutes: int, measured: Callable[[int], Any]) -> Shard:
    def measure(options: Options) -> bool:
        if options.only:
            raise SystemExit(f"eos-{part} is measured as a whole; --only is not for it")
        try:
            outcome = measured(options.repeats or REPEATS)
        except CommandFailed as failure:
            print(f"{part} FAILED {failure}", flush=True)
            return False
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps({**recalled(), part: outcome, "version": Tidegate("a").version()}))
        return True

    return Shard(f"eos-{part}", title, PAGE, minutes, measure, lambda: (int(part in recalled()), 1))


SHARDS = (
    shard("paths", "advice of each sampler against sweeps by hand, and whether asking pays", 60, paths.measured),
    shard("load", "answers under 1,000 and 5,000 connections", 15, load.measured),
    shard("queue", "a queue of 100,000 jobs", 5, lambda n: queue.measured()),
    shard("kills", "kill -9 of the service, a hundred times", 15, lambda n: kills.measured()),
    shard("jobs", f"{JOBS} jobs through the scheduler, optimized and not", 90, lambda n: jobs.measured(n, JOBS)))


def page() -> Page:
    found = recalled()
    return Page(PAGE, report.page(found, found.get("version", "")), {})
