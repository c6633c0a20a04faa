"""What was measured of the service, as the page needs it: by figure, then by cell."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.eos import adaptive, iperf, jobs, kills, load, paths, predicted, queue
from lab.eos.gridftp import FIGURE_3, FIGURE_4
from lab.eos.site import FAST
from lab.ground.results import Record, by_cell
from lab.shard import known

# By row, then by column, in the order of the repeats.
Cells = dict[str, dict[str, list[Record]]]


@dataclass(frozen=True)
class Found:
    """All that is known. `parts` are load, queue, kills, paths and jobs as one object each."""

    version: str = ""
    cells: Mapping[str, Cells] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def of(self, shard: str) -> Cells:
        return self.cells.get(shard, {})


def cells_of(records: Iterable[Record]) -> Cells:
    """One that was measured again replaces the earlier."""
    return by_cell(record for record in records if record.ok)


def middle(records: Sequence[Record], value: Callable[[Record], float] = lambda record: record.seconds) -> float:
    return statistics.median(value(record) for record in records)


def noted(key: str) -> Callable[[Record], float]:
    return lambda record: float(record.notes[key])


def paths_of(cells: Cells) -> dict[str, Any]:
    """Each sampler's advice beside its sweep, and what asking brings."""
    chosen: dict[str, Any] = {}
    pays = []
    for name, ways in cells.items():
        if name.startswith(f"{paths.ADVICE}, "):
            if sweeps := ways.get(paths.BY_HAND):
                asked = ways.get(paths.ADVICE, [])
                counts = sweeps[0].notes["sweep_bps"]
                sweep = {n: statistics.median(each.notes["sweep_bps"][n] for each in sweeps) for n in counts}
                best = max(sweep, key=lambda n: sweep[n])
                # A sweep in which nothing came through judges nothing.
                if asked and sweep[best] > 0:
                    achieved = [each.notes["achieved_bps"] for each in asked]
                    chosen[name.removeprefix(f"{paths.ADVICE}, ")] = {
                        "sweep_bps": sweep, "best": int(best), "best_bps": sweep[best], "achieved_bps": achieved,
                        "streams": [each.notes["streams"] for each in asked],
                        "predicted_bps": [each.notes["predicted_bps"] for each in asked],
                        "share": statistics.median(achieved) / sweep[best],
                        "cost_ms": [each.notes["cost_ms"] for each in asked]}
        elif (plain := ways.get(paths.PLAIN)) and (whole := ways.get(paths.OPTIMIZED)):
            pays.append({"size": name, "plain_s": middle(plain), "estimate_s": middle(whole, noted("estimate_s")),
                         "optimized_s": middle(whole), "streams": round(middle(whole, noted("streams"))),
                         "ratio": middle(plain) / middle(whole), "n": min(len(plain), len(whole))})
    if not chosen and not pays:
        return {}
    return {"link_mbit": FAST.link_mbit, "cap_mbit": FAST.cap_mbit, "chosen": chosen, "pays": pays}


def jobs_of(cells: Cells) -> dict[str, Any]:
    """The longest run through the scheduler, in one object; the figures look at its jobs."""
    longest = max(cells.values(), key=lambda ways: sum(len(r.notes["jobs"]) for r in next(iter(ways.values()))[:1]),
                  default={})
    if not {"plain", "optimized"} <= longest.keys():
        return {}
    rate = {name: middle(runs, lambda run: run.rate_bps) for name, runs in longest.items()}
    over = rate["overlapping"] / rate["plain"] if "overlapping" in rate else None
    return {"jobs": len(longest["plain"][0].notes["jobs"]), "n": min(len(runs) for runs in longest.values()),
            "rate_bps": rate, "ratio": rate["optimized"] / rate["plain"], "ratio_overlapping": over, "runs": longest}


def together(shards: Mapping[str, Sequence[Record]]) -> Found:
    """By figure and cell, and what is one object each."""
    cells = {shard: cells_of(records) for shard, records in shards.items()}

    def notes(shard: str) -> list[Mapping[str, Any]]:
        return [each.notes for ways in cells.get(shard, {}).values() for those in ways.values() for each in those]

    parts: dict[str, Any] = {name: rounds[-1] for name in ("queue", "kills") if (rounds := notes(f"eos-{name}"))}
    if rounds := notes("eos-load"):
        parts["load"] = load.summed(rounds)
    parts |= {name: there for name, there in (("paths", paths_of(cells.get(paths.SHARD, {}))),
                                              ("jobs", jobs_of(cells.get(jobs.SHARD, {})))) if there}
    versions = [record.version for records in shards.values() for record in records if record.ok]
    return Found(versions[-1] if versions else "", cells, parts)


def read() -> Found:
    shards = (iperf.SHARD, jobs.SHARD, paths.SHARD, load.PLAN.shard, queue.PLAN.shard, kills.PLAN.shard, FIGURE_3.shard,
              FIGURE_4.shard, predicted.SHARD, adaptive.SHARD)
    return together({name: known(name) for name in shards})
