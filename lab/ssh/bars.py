"""What is to be reached over ssh."""

import os
import statistics
from collections.abc import Sequence

from lab.grid.case import Case
from lab.grid.figures import Found, Run, best, medians, ratio, runs_of
from lab.pages.parts import Bar, at_least
from lab.runs.datasets import NAMES
from lab.ssh.cases import FAR, LINKS, OURS, RSYNC, SCP, case

# Of the best rival; more where it leaves so much of link and processors unused.
LEAST, IDLE_LEAST, IDLE = 0.97, 1.5, 0.4
# Far away, of those that take one file after the other through one window.
FAR_LEAST = 5.0
# Round trips that the first byte may come later than rsync's.
LATER = 2


def link_used(case: Case, runs: Sequence[Run]) -> float:
    return medians(runs) / (case.goodput_bps or float("inf"))


def processors_used(runs: Sequence[Run]) -> float:
    """Of all there are: both ends, the kernel's network code, and the relay that is the link."""
    def busy(run: Run) -> float:
        return run.record.cpu_seconds / run.record.seconds + float(run.record.notes["noise"]["other_cpus"])
    return medians(runs, busy) / (os.cpu_count() or 1)


def rival_bars(found: Found) -> list[Bar]:
    bars: list[Bar] = []
    for on in (case(link, what) for link in LINKS for what in NAMES):
        there = found.get(on.name, {})
        first = best(there, lambda name: name != OURS)
        if first is None:
            continue
        link, processors = link_used(on, there[first]), processors_used(there[first])
        wanted = IDLE_LEAST if max(link, processors) <= 1 - IDLE else LEAST
        bars += at_least(f"{on.name}: ÷ the best rival, {first}, which uses {link:.0%} of the link and "
                         f"{processors:.0%} of the processors", ratio(there.get(OURS, []), there[first]), wanted)
    return bars


def far_bars(found: Found) -> list[Bar]:
    bars: list[Bar] = []
    for name in (case(FAR, what).name for what in NAMES):
        for other in (SCP, RSYNC):
            bars += at_least(f"{name}: ÷ {other}", ratio(runs_of(found, name, OURS), runs_of(found, name, other)), FAR_LEAST)
    return bars


def first_byte_s(runs: Sequence[Run]) -> float | None:
    """The median second at which the content was there; absent where it was not seen."""
    seen = [run.record.notes["first_byte_s"] for run in runs if run.record.notes.get("first_byte_s") is not None]
    return statistics.median(seen) if seen else None


def first_bars(found: Found) -> list[Bar]:
    bars = []
    for on in (case(link, "first") for link in LINKS):
        own, theirs = (first_byte_s(runs_of(found, on.name, name)) for name in (OURS, RSYNC))
        if own is None or theirs is None:
            continue
        wanted = theirs + LATER * on.scenario.link.rtt_s
        bars.append(Bar(f"{on.name}: from return to the first byte; rsync {theirs * 1e3:.0f} ms",
                        f"≤ {wanted * 1e3:.0f} ms", f"{own * 1e3:.0f} ms", own <= wanted, len(runs_of(found, on.name, OURS))))
    return bars
