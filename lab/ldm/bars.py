"""What is asked of LDM's table here, and of what its headline ratios are made: the rule, the engine, the link."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.grid.figures import Found, Run, medians, ratio, runs_of
from lab.ground.stats import Ratio
from lab.ldm import cases, paper
from lab.pages.parts import Bar
from lab.pages.published import Published

# The mover that stands for each row of the paper's table: Falcon and DRL as they were, without chunks and pipelining.
STANDS_FOR = {"Globus": None, "Falcon": cases.bare(cases.FALCON).name, "DRL": cases.bare(cases.DRL).name,
              "LDM-GD": cases.LDM_GD.name, "LDM": cases.LDM.name}
# The same rule in our engine: what is left of the ratio is the rule's.
SAME_RULE = {"Falcon": cases.FALCON.name, "DRL": cases.DRL.name}
OTHERS = ("Globus", "Falcon", "DRL", "LDM-GD")
# A second at which so many streams are left is within half a stream of theirs.
SHOWN_S = 2


def mover(row: str, dataset: str) -> str:
    """Globus is told the table's numbers, which differ from set to set."""
    name = STANDS_FOR[row]
    return cases.globus(dataset)[0].name if name is None else name


def late_bps(run: Run) -> float:
    """The rate of the second half: what a rule holds when it has climbed."""
    return run.between(run.end_s / 2, run.end_s)


def file_s(run: Run) -> float:
    """How long a connection is busy with one file, in the mean, once the rule has climbed."""
    late = [count for at_s, count in run.connections() if at_s > run.end_s / 2]
    streams = statistics.fmean(late) if late else run.streams
    mean_bits = run.record.bytes * 8 / run.record.files
    return streams * mean_bits / late_bps(run) if late_bps(run) else float("inf")


def paper_file_s(row: str, dataset: str, mean_mb: float) -> float:
    gbit, streams = paper.TABLE_II[row][dataset]
    return streams * mean_mb * 8 / 1e3 / gbit


@dataclass(frozen=True)
class Headline:
    """LDM against one other on one set, there and here, and what of it is the rule and what the engine."""

    dataset: str
    other: str
    published: Published
    measured: Ratio | None
    rule: Ratio | None
    engine: Ratio | None
    late: float | None
    # The most the ratio can be: the link against the other.
    most: float | None

    @property
    def reached(self) -> bool | None:
        return None if self.measured is None else self.published.met(self.measured.median)

    @property
    def reason(self) -> str:
        """Why it is smaller here, or larger, as far as what was measured says."""
        if self.measured is None or self.reached:
            return ""
        if self.published.above(self.measured.median):
            parts = [f"{what} {part.median:.2f}" for what, part in (("the rule", self.rule), ("the engine", self.engine))
                     if part is not None]
            return self.published.told(self.measured.median) + (f": {' times '.join(parts)}" if parts else "")
        if self.most is not None and self.most < self.published.value:
            return f"the link allows {self.most:.1f} at most: the other does better here"
        if self.late is not None and self.late < self.measured.median:
            return f"{self.late:.2f} over the second halves, climbing left out"
        return "LDM is slower here"


def headline(found: Found, dataset: str, other: str) -> Headline:
    ldm, theirs = runs_of(found, dataset, cases.LDM.name), runs_of(found, dataset, mover(other, dataset))
    same = runs_of(found, dataset, SAME_RULE[other]) if other in SAME_RULE else []
    late = medians(ldm, late_bps) / medians(theirs, late_bps) if ldm and theirs and medians(theirs, late_bps) else None
    goodput = cases.case(dataset).goodput_bps
    most = goodput / medians(theirs) if theirs and goodput and medians(theirs) else None
    return Headline(dataset, other, paper.headline(other, dataset), ratio(ldm, theirs), ratio(ldm, same),
                    ratio(same, theirs), late, most)


def headlines(found: Found) -> list[Headline]:
    return [headline(found, dataset, other) for other in OTHERS for dataset in "ABCD"]


def bars(found: Found) -> list[Bar]:
    made = []
    for each in headlines(found):
        if each.measured is not None:
            why = f"; {each.reason}" if each.reason else ""
            made.append(Bar(f"set {each.dataset}: LDM ÷ {each.other}", each.published.asked, f"{each.measured}{why}",
                            each.reached, each.measured.count))
    return [*made, *tail_bars(found)]


def tail(run: Run) -> tuple[float, float]:
    """Seconds at the end with less than half of the best second, and the mean rate then in bit/s."""
    steps = run.staircase()
    if not steps:
        return 0.0, 0.0
    best = max(mbit for _, mbit in steps)
    begin = max(at_s for at_s, mbit in steps if mbit >= best / 2)
    return max(0.0, run.end_s - begin), run.between(begin, run.end_s)


def left(run: Run) -> list[int]:
    """Seconds, to whole ones, at the rate of three streams, of two and of one, after its last second at full rate."""
    stream = cases.path_of("B").network.worker_bps / 1e6
    steps = run.staircase()
    full = max((i for i, (_, mbit) in enumerate(steps) if mbit > (paper.FIGURE_4[0] + 0.5) * stream), default=0)
    counts = [round(mbit / stream) for _, mbit in steps[full + 1:]]
    return [counts.count(streams) for streams in paper.FIGURE_4]


def tail_bars(found: Found) -> list[Bar]:
    """Figure 4: steps without parallelism, and a shorter end with it."""
    made = []
    for rule, without in cases.TAILS:
        chunked, whole = (runs_of(found, cases.TAIL, each.name) for each in (rule, without))
        if whole:
            steps = [statistics.median(left(run)[i] for run in whole) for i in range(len(paper.FIGURE_4))]
            made.append(Bar(f"figure 4: `{without.name}`, s at the rate of 3, 2 and 1 streams",
                            f"each ≥ {SHOWN_S}, as the paper's 9, 6 and 3 Gbit/s", ", ".join(f"{s:g}" for s in steps),
                            min(steps) >= SHOWN_S, len(whole)))
        if whole and chunked:
            own, theirs = (medians(those, lambda run: tail(run)[0]) for those in (chunked, whole))
            made.append(Bar(f"figure 4: `{rule.name}`, s below half of its best second at the end",
                            f"less than `{without.name}`", f"{own:.0f} against {theirs:.0f}", own < theirs,
                            min(len(chunked), len(whole))))
    return made


def time_to_mean(found: Sequence[Run]) -> float | None:
    """Figure 3: until a run first has its own mean, the median over the runs."""
    times = [at_s for run in found if (at_s := run.time_to(run.bps)) is not None]
    return statistics.median(times) if times else None
