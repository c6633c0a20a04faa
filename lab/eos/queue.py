"""A hundred thousand jobs: how fast they are taken, listed and cancelled, and what they cost in memory."""

import contextlib
import statistics
import time
from typing import Any

from lab.eos.service import scratch, service
from lab.eos.task import Outcome, Plan, Task
from lab.ground.quiet import quiet

JOBS, BATCH, PAGE, ASKED = 100_000, 1000, 100, 50


def timed(times: list[float], ask: Any, *arguments: Any) -> Any:
    began = time.monotonic()
    answer = ask(*arguments)
    times.append((time.monotonic() - began) * 1000)
    return answer


def measured(where: None, repeat: int) -> Outcome:
    """Every batch is acknowledged after it is on the disk; one slow job keeps the others waiting."""
    pages: list[float] = []
    cancels: list[float] = []
    with scratch() as here, service(here / "state", "--max-jobs", 1) as serving, quiet():
        (here / "slow.bin").write_bytes(bytes(range(256)) * (1 << 20))
        serving.ask("/api/v1/jobs", [{"source": str(here / "slow.bin"), "destination": str(here / "slow-copy/"),
                                      "priority": 9, "optimization": False,
                                      "options": {"limit_network": "2Mbit/s"}}])
        batches = [[{"source": str(here / f"{i}/{j}.bin"), "destination": str(here / "copies/")}
                    for j in range(BATCH)] for i in range(JOBS // BATCH)]
        began = time.monotonic()
        for batch in batches:
            serving.ask("/api/v1/jobs", batch)
        submitted = time.monotonic() - began
        listed = timed([], serving.ask, f"/api/v1/jobs?limit={PAGE}")
        for i in range(ASKED):
            next_page = listed.get("next") if i % 5 else None
            cursor = f"&cursor={next_page}" if next_page is not None else ""
            listed = timed(pages, serving.ask, f"/api/v1/jobs?limit={PAGE}{cursor}")
            victim = listed["jobs"][i % len(listed["jobs"])]["id"]
            timed(cancels, serving.ask, f"/api/v1/jobs/{victim}/cancel", {}, "POST")
        memory = serving.memory_mb()
    return Outcome(submitted, notes={
        "jobs": JOBS, "batch": BATCH, "submitted_per_s": round(JOBS / submitted), "page_ms": statistics.median(pages),
        "page_worst_ms": max(pages), "cancel_ms": statistics.median(cancels), "cancel_worst_ms": max(cancels),
        "memory_mb": round(memory, 1)})


PLAN = Plan("eos-queue", contextlib.nullcontext, [Task("queue", "service", 60, measured)], 1)
