"""What is asked of a control rule on live paths, and what each run came to."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.live import figures
from lab.runs.epochs import Epoch, epochs
from lab.live.experiments import CAPS, LINK_MBIT, Experiment, experiments
from lab.live.rules import NAMES, RECIPES
from lab.ground.results import Record
from lab.ground.stats import shown, spread

PATH_BPS = LINK_MBIT * 1e6
# Links shaped by tc carry frames; what is left for content:
LINK_BPS = PATH_BPS * figures.CONTENT
# Steady from here on: Marlin needs half a minute on these paths.
STEADY_S = 30
DEFAULT = "auto"
PUBLISHED = ("marlin", "falcon", "gradient")
# A share is judged by running means of so many seconds, from the last join to the first that leaves.
FAIR_OVER_S = 5
FAIR_WITHIN_S, FAIR = 30, 0.95
RETAKEN_WITHIN_S = 10
WITHIN_EPOCHS = 5


@dataclass(frozen=True)
class Bar:
    """What is asked, what was measured, and whether it is enough in each run."""

    what: str
    bar: str
    measured: str
    reached: Sequence[bool]

    @property
    def verdict(self) -> str:
        if all(self.reached):
            return "yes"
        return f"in {sum(self.reached)} of {len(self.reached)} runs" if any(self.reached) else "no"


# Runs by experiment and rule: each is the epochs of every transfer in it.
Runs = dict[tuple[str, str], list[list[list[Epoch]]]]


def runs(records: Iterable[Record]) -> Runs:
    """The good runs; one that was measured again replaces the earlier."""
    found: Runs = {}
    for record in sorted({r.key: r for r in records if r.ok}.values(), key=lambda r: r.repeat):
        logs = [epochs(log) for log in record.notes["logs"]]
        found.setdefault((record.set, record.contender), []).append(logs)
    return found


def rules_in(found: Runs) -> list[str]:
    present = {rule for _, rule in found}
    return [name for name in (*NAMES[:-1], *RECIPES) if name in present]


def alone(found: Runs, name: str, rule: str) -> list[list[Epoch]]:
    """Runs of one transfer."""
    return [logs[0] for logs in found.get((name, rule), [])]


def counted(values: Sequence[float | None], digits: int = 0) -> str:
    """Median and range, and how many never got there."""
    got = [value for value in values if value is not None]
    if not got:
        return "never"
    missing = len(values) - len(got)
    return shown(spread(got), digits) + (f", {missing} never" if missing else "")


def within(values: Sequence[float | None], most: float) -> list[bool]:
    return [value is not None and value <= most for value in values]


# AutoMDT's paths.

def soon(runs_: Sequence[Sequence[Epoch]]) -> list[float | None]:
    return [figures.seconds_to(run, 0.9 * PATH_BPS) for run in runs_]


def steady(runs_: Sequence[Sequence[Epoch]]) -> list[list[Epoch]]:
    return [figures.since(run, STEADY_S) for run in runs_]


def unsteady(runs_: Sequence[Sequence[Epoch]]) -> list[float]:
    return [max(figures.deviations(run)) for run in steady(runs_)]


def astray(runs_: Sequence[Sequence[Epoch]], name: str) -> list[float]:
    return [figures.furthest(figures.usual(run), CAPS[name].best) for run in steady(runs_)]


def means(runs_: Sequence[Sequence[Epoch]]) -> list[float]:
    return [figures.mean_bps(run) for run in runs_]


def median_mean(found: Runs, name: str, rule: str) -> float | None:
    there = alone(found, name, rule)
    return statistics.median(means(there)) if there else None


def steady_mbps(run: Sequence[Epoch]) -> float:
    return figures.mean_between(run, 0.0, STEADY_S, run[-1].end_s) / 1e6


def path_bars(found: Runs, rule: str) -> list[Bar]:
    bars = []
    for name in CAPS:
        there = alone(found, name, rule)
        if not there:
            continue
        times, strays, deviations = soon(there), astray(there, name), unsteady(there)
        bars += [Bar(f"{name} is slow: s to 90 % of 1 Gbit/s", "≤ 5", counted(times, 1), within(times, 5.05)),
                 Bar(f"{name} is slow: standard deviation of workers, the most of a stage", "≤ 1",
                     shown(spread(deviations)), within(deviations, 1)),
                 Bar(f"{name} is slow: workers from the best, the most of a stage", "≤ 25 %",
                     shown(spread([100 * s for s in strays]), 0) + " %", within(strays, 0.25))]
        own = means(there)
        for other in (*PUBLISHED, *RECIPES):
            rate = median_mean(found, name, other)
            if rate is not None:
                least = 0.98 if other in RECIPES else 1.0
                bars.append(Bar(f"{name} is slow: mean ÷ that of `{other}`", f"≥ {least:g}",
                                shown(spread([bps / rate for bps in own])), [bps >= least * rate for bps in own]))
    return bars


# Paths that change.

@dataclass(frozen=True)
class Step:
    what: str
    at_s: float
    until_s: float
    carries_bps: float


def steps_of(experiment: Experiment) -> list[Step]:
    """Where the path changes, what it becomes, and what it carries until the next change."""
    changes = [(at_s, f"link {mbit}", mbit * 1e6 * figures.CONTENT) for at_s, mbit in experiment.link_steps]
    changes += [(at_s, f"stream {mbit}", LINK_BPS) for at_s, mbit in experiment.stream_steps]
    ends = [at_s for at_s, *_ in changes[1:]] + [experiment.seconds]
    return [Step(f"{what} Mbit/s", at_s, end, bps) for (at_s, what, bps), end in zip(changes, ends)]


def again(found: Runs, experiment: Experiment, rule: str, step: Step) -> list[float | None]:
    """Epochs from the step until the path is used again, in each run."""
    return [figures.epochs_until(run, step.at_s, 0.9 * step.carries_bps, step.until_s)
            for run in alone(found, experiment.name, rule)]


def changing() -> list[Experiment]:
    return [experiment for experiment in experiments() if experiment.link_steps or experiment.stream_steps]


def step_bars(found: Runs, rule: str) -> list[Bar]:
    bars = []
    for experiment in changing():
        for step in steps_of(experiment):
            if counts := again(found, experiment, rule, step):
                bars.append(Bar(f"{step.what}: epochs to 90 %", f"≤ {WITHIN_EPOCHS}", counted(counts),
                                within(counts, WITHIN_EPOCHS)))
    return bars


# Shared paths.

@dataclass(frozen=True)
class Share:
    """What came of one run with several transfers."""

    fair_after_s: float | None  # after the last join
    index: float  # in the last seconds before the first leaves
    rates: Sequence[float]  # then, in bit/s
    total_bps: float  # then
    retaken_s: Sequence[float | None]  # after each that left

    @property
    def is_fair(self) -> bool:
        return self.fair_after_s is not None and self.fair_after_s <= FAIR_WITHIN_S and self.index >= FAIR


def share(experiment: Experiment, logs: Sequence[Sequence[Epoch]]) -> Share:
    joins = [joins for joins, _ in experiment.visits]
    leaves = [leaves for _, leaves in experiment.visits]

    def rates(begin: float, end: float) -> list[float]:
        return [figures.mean_between(run, joined, begin, end) for run, joined in zip(logs, joins)]

    def remaining(second: float) -> float:
        return sum(figures.at(run, joined, second) for run, joined in zip(logs, joins))

    last, first = joins[-1], leaves[0]
    fair = figures.first_second(last + FAIR_OVER_S, first, lambda s: figures.jain(rates(s - FAIR_OVER_S, s)) >= FAIR)
    late = rates(last + FAIR_WITHIN_S, first)
    # From the first full second after it left; the log of one that leaves ends with its last whole epoch.
    retaken = [figures.first_second(left, end - 1, lambda s: remaining(s + 0.5) >= 0.9 * LINK_BPS)
               for left, end in zip(leaves, leaves[1:])]
    return Share(None if fair is None else fair + FAIR_OVER_S, figures.jain(late), late, sum(late), retaken)


def shares(found: Runs, experiment: Experiment, rule: str) -> list[Share]:
    return [share(experiment, logs) for logs in found.get((experiment.name, rule), [])]


def shared() -> list[Experiment]:
    return [experiment for experiment in experiments() if experiment.visits]


def together(experiment: Experiment, logs: Sequence[Sequence[Epoch]]) -> list[float]:
    """Median streams of each in the seconds before the first leaves."""
    first, last = experiment.visits[0][1], experiment.visits[-1][0]
    return [figures.usual(figures.since(run, last + FAIR_WITHIN_S - joined, first - joined))[1]
            for run, (joined, _) in zip(logs, experiment.visits)]


def share_bars(found: Runs, rule: str) -> list[Bar]:
    bars = []
    for experiment in shared():
        there = shares(found, experiment, rule)
        if not there:
            continue
        left = [value for each in there for value in each.retaken_s]
        count = len(experiment.visits)
        bars += [Bar(f"{count} transfers: Jain index {FAIR_WITHIN_S} s after the last join", f"≥ {FAIR:g}",
                     shown(spread([each.index for each in there]), 3), [each.is_fair for each in there]),
                 Bar(f"{count} transfers: s to retake what was freed", f"≤ {RETAKEN_WITHIN_S}", counted(left),
                     [all(within(each.retaken_s, RETAKEN_WITHIN_S)) for each in there])]
    return bars


def bars(found: Runs, rule: str) -> list[Bar]:
    return [*path_bars(found, rule), *step_bars(found, rule), *share_bars(found, rule)]
