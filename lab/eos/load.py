"""Estimates from history under load, and connections ramped up: the EOS paper's "thousands of clients"."""

import contextlib
import json
import resource
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from lab.eos.service import endpoint, scratch, service
from lab.eos.task import Outcome, Plan, Task
from lab.ground.places import BUILD, REPOSITORY
from lab.ground.quiet import quiet
from lab.ground.shell import CommandFailed, run

BYTES = 10 << 30
CONNECTIONS, RATE, SECONDS = 1000, 2000, 20
RAMPED, RAMP = 5000, 200
REPEATS = 5


def generator() -> str:
    program = BUILD / "release" / "examples" / "load"
    run(["cargo", "build", "--release", "-q", "--manifest-path", REPOSITORY / "Cargo.toml", "-p", "tidegate-service",
         "--example", "load"])
    return str(program)


def measured(where: None, repeat: int) -> Outcome:
    """One round of both loads at a service of its own."""
    load = generator()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with scratch() as here, endpoint(here / "root", here / "endpoint") as ticket, service(here / "state") as serving:
        question = {"source": str(here), "destination": f"{ticket}in", "bytes": BYTES, "use_history": True}
        first = serving.ask("/api/v1/estimates", question)
        again = serving.ask("/api/v1/estimates", question)
        common = [load, "--url", f"{serving.url}/api/v1/estimates", "--body", json.dumps(question), "--token",
                  serving.token]
        began = time.monotonic()
        with quiet():
            steady = json.loads(run([*common, "--connections", CONNECTIONS, "--rate", RATE, "--seconds", SECONDS],
                                    check=False) or "null")
            ramped = json.loads(run([*common, "--connections", RAMPED, "--ramp", RAMP, "--rate", 0],
                                    check=False) or "null")
        memory = serving.memory_mb()
    if steady is None or ramped is None:
        raise CommandFailed("the load generator printed nothing")
    return Outcome(time.monotonic() - began, notes={
        "streams": first["streams"], "origin": again.get("origin"), "steady": steady, "ramped": ramped,
        "memory_mb": round(memory, 1)})


def summed(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, with the counts of errors added up."""
    steady, ramped = [each["steady"] for each in rounds], [each["ramped"] for each in rounds]
    middle = {key: statistics.median(each[key] for each in steady)
              for key in ("median_ms", "p99_ms", "worst_ms", "rate_per_s")}

    def wrong(those: Sequence[Mapping[str, Any]]) -> int:
        return sum(each[key] for each in those for key in ("refused", "failed", "unconnected"))

    return {"n": len(rounds), **middle, "errors": wrong(steady), "ramped_errors": wrong(ramped),
            "ramped_answered": sum(each["answered"] for each in ramped),
            "memory_mb": max(each["memory_mb"] for each in rounds)}


PLAN = Plan("eos-load", contextlib.nullcontext,
            [Task("load", "history", SECONDS + RAMPED / RAMP + 10, measured)], REPEATS)
