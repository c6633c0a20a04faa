"""What eight transfers come to: their rate together, how equal they are, and how many streams they use."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from lab.eight.cases import ALONE, COUNT, RULES, SETTLED_S, SWEEP, SWEEP_S, SWEEP_SETTLED_S, TOGETHER, TOGETHER_S
from lab.grid.figures import Found, Run, medians, numbered
from lab.runs.epochs import jain, mean_between

# The least fixed number within this of the best is what the link needs.
AS_GOOD = 0.98


@dataclass(frozen=True)
class Together:
    """One run, from when all have settled."""

    bps: float
    index: float
    rates: tuple[float, ...]
    streams: float


def together(run: Run) -> Together:
    rates = tuple(mean_between(log, 0.0, SETTLED_S, TOGETHER_S - 1) for log in run.logs)
    streams = sum(mean_between(log, 0.0, SETTLED_S, TOGETHER_S - 1, lambda epoch: epoch.streams) for log in run.logs)
    return Together(run.between(SETTLED_S, TOGETHER_S - 1), jain(rates), rates, streams)


def runs(found: Found, rule: str) -> list[Together]:
    return [together(run) for run in found.get(TOGETHER.name, {}).get(rule, []) if len(run.logs) == COUNT]


def measured(found: Found) -> Mapping[str, list[Together]]:
    return {rule.name: there for rule in RULES if (there := runs(found, rule.name))}


def alone_bps(found: Found) -> float | None:
    """The default rule by itself, over the same seconds."""
    there = found.get(ALONE.name, {}).get("auto", [])
    return statistics.median(run.between(SETTLED_S, TOGETHER_S - 1) for run in there) if there else None


def swept(found: Found) -> dict[int, float]:
    """What each fixed number brings."""
    there = numbered(found.get(SWEEP.name, {}))
    return {n: medians(those, lambda run: run.between(SWEEP_SETTLED_S, SWEEP_S - 1)) for n, those in sorted(there.items())}


def needed(found: Found) -> int | None:
    there = swept(found)
    return min((n for n, bps in there.items() if bps >= AS_GOOD * max(there.values())), default=None)
