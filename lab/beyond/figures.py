"""What runs on these links say: the best fixed number, epochs after a step, fairness of a share, harm to a flow."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.beyond.cases import ALONE_S, HARM, HARM_S, LINKS, Step, fills_alone
from lab.grid.case import Case
from lab.grid.figures import Found, Run, medians, numbered
from lab.links.background import moved
from lab.runs.epochs import at, epochs_until, first_second, jain, mean_between, since, usual

# Of fixed numbers that are as good as the best within this, the least is the best.
AS_GOOD = 0.99
# A share is judged by running means of so many seconds, from the last join to the first that leaves.
FAIR_OVER_S, FAIR_WITHIN_S, FAIR = 5, 30, 0.95
# A flow and those who join it take so long to settle.
SETTLING_S = 10.0
NETWORK = 1


def best_fixed(found: Found) -> dict[str, int]:
    """By link, the fixed number of the sweep to be held against."""
    best = {}
    for link in LINKS:
        if there := {n: medians(runs) for n, runs in numbered(found.get(link, {})).items()}:
            best[link] = min(n for n, bps in there.items() if bps >= AS_GOOD * max(there.values()))
    return best


def workers(run: Run) -> float:
    """Mean workers of the stage that has most, by the log."""
    log = [epoch for log in run.logs for epoch in log]
    measured = sum(epoch.measured_s for epoch in log)
    if not measured:
        return run.streams
    return max(sum(epoch.workers[i] * epoch.measured_s for epoch in log) / measured for i in range(3))


# Links that change.

def again(run: Run, step: Step) -> int | None:
    """Epochs from the step to the first of two in a row with 90 % of what the link then carries."""
    return epochs_until(run.logs[0], step.at_s, 0.9 * step.carries_bps, step.until_s) if run.logs else None


def streams_after(run: Run, step: Step) -> float | None:
    """Median streams in the last ten seconds before the next change."""
    late = since(run.logs[0], step.until_s - 10, step.until_s) if run.logs else []
    return usual(late)[NETWORK] if late else None


def streams_between(run: Run, begin_s: float, end_s: float) -> float:
    """Mean streams between two seconds, as far as the log goes."""
    if not run.logs:
        return run.streams
    logged = mean_between(run.logs[0], 0.0, begin_s, end_s, lambda e: 1.0)
    return mean_between(run.logs[0], 0.0, begin_s, end_s, lambda e: e.streams) / logged if logged else 0.0


# Links that are shared.

@dataclass(frozen=True)
class Share:
    """What came of one run with several transfers."""

    fair_after_s: float | None  # after the last join
    index: float  # in the last seconds before the first leaves
    rates: Sequence[float]  # then, in bit/s
    streams: Sequence[float]  # then, median of each
    retaken_s: Sequence[float | None]  # after each that left

    @property
    def is_fair(self) -> bool:
        return self.fair_after_s is not None and self.fair_after_s <= FAIR_WITHIN_S and self.index >= FAIR


def share(case: Case, run: Run) -> Share:
    logs, carries = run.logs, case.goodput_bps or 0.0
    joins, leaves = [joins for joins, _ in case.visits], [leaves for _, leaves in case.visits]

    def rates(begin: float, end: float) -> list[float]:
        return [mean_between(log, joined, begin, end) for log, joined in zip(logs, joins)]

    def remaining(second: float) -> float:
        return sum(at(log, joined, second) for log, joined in zip(logs, joins))

    last, first = joins[-1], leaves[0]
    settled = max(first - 10, last)
    fair = first_second(last + FAIR_OVER_S, first, lambda s: jain(rates(s - FAIR_OVER_S, s)) >= FAIR)
    late = rates(min(last + FAIR_WITHIN_S, settled), first)
    # From the first full second after it left; the log of one that leaves ends with its last whole epoch.
    retaken = [first_second(left, end - 1, lambda s: remaining(s + 0.5) >= 0.9 * carries)
               for left, end in zip(leaves, leaves[1:])]
    used = [median_streams(log, settled - joined, first - joined) for log, joined in zip(logs, joins)]
    return Share(None if fair is None else fair + FAIR_OVER_S, jain(late), late, used, retaken)


def median_streams(log: Sequence[object], begin_s: float, end_s: float) -> float:
    there = since(log, begin_s, end_s)  # type: ignore[arg-type]
    return usual(there)[NETWORK] if there else 0.0


# Plain TCP flows beside us.

@dataclass(frozen=True)
class Harm:
    """What so many flows had together alone and beside us, and what we had, in bit/s."""

    flows: int
    alone_bps: float
    beside_bps: float
    ours_bps: float

    @property
    def harm(self) -> float:
        """(Alone − beside) ÷ alone, as Ware et al. define it."""
        return 1 - self.beside_bps / self.alone_bps if self.alone_bps else 0.0

    @property
    def share(self) -> float:
        """What the flows keep of an equal share of what all move, where a transfer of ours is one more flow."""
        equal = (self.beside_bps + self.ours_bps) * self.flows / (self.flows + 1)
        return self.beside_bps / equal if equal else 0.0


def harm(run: Run) -> Harm:
    others = run.record.notes["others"]
    return Harm(HARM[run.record.set][0], moved(others, SETTLING_S / 2, ALONE_S), moved(others, ALONE_S + SETTLING_S, HARM_S),
                run.between(ALONE_S + SETTLING_S, HARM_S))


def fair(found: Found, name: str) -> float | None:
    """What the streams that would fill the link alone take beside the same flows, in bit/s."""
    runs = found.get(name, {}).get(f"fixed {fills_alone(name)}", [])
    return statistics.median(harm(run).ours_bps for run in runs) if runs else None
