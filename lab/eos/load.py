"""Estimates from history under load, and connections ramped up: the EOS paper's "thousands of clients"."""

import json
import resource
import statistics
from typing import Any

from lab.eos.service import endpoint, scratch, service
from lab.ground.places import BUILD, REPOSITORY
from lab.ground.quiet import quiet
from lab.ground.shell import CommandFailed, run

BYTES = 10 << 30
CONNECTIONS, RATE, SECONDS = 1000, 2000, 20
RAMPED, RAMP = 5000, 200


def generator() -> str:
    program = BUILD / "release" / "examples" / "load"
    run(["cargo", "build", "--release", "-q", "--manifest-path", REPOSITORY / "Cargo.toml", "-p", "tidegate-service",
         "--example", "load"])
    return str(program)


def measured(n: int) -> dict[str, Any]:
    """Medians over n rounds of both loads, with the counts of errors added up."""
    load = generator()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    steady, ramped = [], []
    with scratch() as here, endpoint(here / "root", here / "endpoint") as ticket, service(here / "state") as serving:
        question = {"source": str(here), "destination": f"{ticket}in", "bytes": BYTES, "use_history": True}
        first = serving.ask("/api/v1/estimates", question)
        again = serving.ask("/api/v1/estimates", question)
        common = [load, "--url", f"{serving.url}/api/v1/estimates", "--body", json.dumps(question), "--token",
                  serving.token]
        for _ in range(n):
            with quiet():
                steady.append(json.loads(run([*common, "--connections", CONNECTIONS, "--rate", RATE, "--seconds",
                                              SECONDS], check=False) or "null"))
                ramped.append(json.loads(run([*common, "--connections", RAMPED, "--ramp", RAMP, "--rate", 0],
                                             check=False) or "null"))
        memory = serving.memory_mb()
    if None in steady or None in ramped:
        raise CommandFailed("the load generator printed nothing")
    middle = {key: statistics.median(each[key] for each in steady) for key in ("median_ms", "p99_ms", "worst_ms",
                                                                               "rate_per_s")}
    errors = sum(each[key] for each in steady for key in ("refused", "failed", "unconnected"))
    wrong = sum(each[key] for each in ramped for key in ("refused", "failed", "unconnected"))
    return {"n": n, "streams": first["streams"], "origin": again.get("origin"), **middle, "errors": errors,
            "ramped_answered": sum(each["answered"] for each in ramped), "ramped_errors": wrong,
            "first_error": next((each["first_error"] for each in [*steady, *ramped] if each["first_error"]), None),
            "memory_mb": round(memory, 1)}
