"""What a run of a grid says, the same way for every mover: how fast, how soon, over how many connections."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.ground import stats
from lab.ground.results import Record, by_cell, latest
from lab.ground.stats import Ratio, paired
from lab.runs.epochs import Epoch, epochs
from lab.runs.sampler import Sample, arrived

STEP_S = 1.0
FIXED = "fixed "

# A grid's good runs: by link, then by mover, in the order of their repeats.
Found = dict[str, dict[str, list["Run"]]]


@dataclass(frozen=True)
class Run:
    """One good run."""

    record: Record

    @property
    def bps(self) -> float:
        return self.record.rate_bps

    @property
    def samples(self) -> Sequence[Sample]:
        found: Sequence[Sample] = self.record.notes["samples"]
        return found

    @property
    def logs(self) -> list[list[Epoch]]:
        """The epochs of each transfer; none for a mover that is not ours."""
        return [epochs(log) for log in self.record.notes.get("epochs", [])]

    def between(self, begin_s: float, end_s: float) -> float:
        """Mean rate in bit/s between two seconds."""
        moved = arrived(self.samples, end_s) - arrived(self.samples, begin_s)
        return moved * 8 / (end_s - begin_s) if end_s > begin_s else 0.0

    @property
    def end_s(self) -> float:
        """When 99.9 % of the bytes were there."""
        total = self.samples[-1][1]
        return next((sample[0] for sample in self.samples if sample[1] >= total * 0.999), self.samples[-1][0])

    def staircase(self) -> list[tuple[float, float]]:
        """Mbit/s of each second."""
        points, begin = [], 0.0
        while begin + STEP_S <= self.end_s + 1e-9:
            points.append((begin + STEP_S, self.between(begin, begin + STEP_S) / 1e6))
            begin += STEP_S
        return points

    def time_to(self, bps: float) -> float | None:
        """The end of the first second with that rate."""
        return next((t for t, mbit in self.staircase() if mbit * 1e6 >= bps), None)

    @property
    def streams(self) -> float:
        """Mean number of connections: by our own log, else those seen open."""
        if logs := [log for log in self.logs if log]:
            return statistics.fmean(sum(e.streams * e.measured_s for e in log) / sum(e.measured_s for e in log)
                                    for log in logs)
        there = [sample[2] for sample in self.samples if 0 < sample[0] <= self.end_s]
        return statistics.fmean(there) if there else 0.0

    def connections(self) -> list[tuple[float, float]]:
        return [(sample[0], float(sample[2])) for sample in self.samples if sample[0] <= self.end_s]


def found_in(records: Iterable[Record], shard: str) -> Found:
    """One that was measured again replaces the earlier."""
    good = (record for record in latest(records) if record.ok and record.scenario == shard)
    return {link: {mover: [*map(Run, those)] for mover, those in there.items()} for link, there in by_cell(good).items()}


def found_of(records: Mapping[str, Iterable[Record]]) -> Found:
    """The same of several shards, whose links differ in name."""
    return {link: there for shard, those in records.items() for link, there in found_in(those, shard).items()}


def runs_of(found: Found, link: str, mover: str) -> list[Run]:
    """None where it was not measured."""
    return found.get(link, {}).get(mover, [])


def numbered(there: Mapping[str, list[Run]], prefix: str = FIXED) -> dict[int, list[Run]]:
    """Those movers whose names are a prefix and a number, as those of fixed streams are."""
    return {int(mover.removeprefix(prefix)): runs for mover, runs in there.items() if mover.startswith(prefix)}


def medians(runs: Sequence[Run], value: Callable[[Run], float] = lambda run: run.bps) -> float:
    return statistics.median(value(run) for run in runs)


def median_time(runs: Sequence[Run], bps: float) -> float | None:
    """The median second at which that rate was there; absent where most runs never had it."""
    return stats.median_time(run.time_to(bps) for run in runs)


def ratio(ours: Sequence[Run], theirs: Sequence[Run], value: Callable[[Run], float] = lambda run: run.bps) -> Ratio | None:
    """Pairs of the same repeat."""
    by_repeat = {run.record.repeat: value(run) for run in theirs}
    pairs = [(value(run), by_repeat[run.record.repeat]) for run in ours if run.record.repeat in by_repeat]
    return paired([a for a, _ in pairs], [b for _, b in pairs])


def best(there: dict[str, list[Run]], wanted: Callable[[str], bool]) -> str | None:
    """The mover of largest median among those wanted."""
    named = [name for name in there if wanted(name)]
    return max(named, key=lambda name: medians(there[name]), default=None)


def middle(runs: Sequence[Run]) -> Run:
    """The run of median rate, for pictures."""
    return sorted(runs, key=lambda run: run.bps)[(len(runs) - 1) // 2]
