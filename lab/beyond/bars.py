"""The bars of these links: the default rule in every row, against the best fixed number, after steps and in shares."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from lab.beyond.cases import HARM, STEPS, TRANSFERS, case, share as share_case, steps
from lab.beyond.figures import FAIR, FAIR_WITHIN_S, Share, again, fair, harm, share, workers
from lab.beyond.rules import BACKGROUND, DEFAULT, FULL
from lab.grid.case import Case
from lab.grid.figures import Found, ratio
from lab.grid.remarks import default_bars
from lab.ground.stats import counted
from lab.pages.parts import Bar, at_least

LEAST = 0.95
MORE_WORKERS, FULL_WORKERS = 1.2, 1.3
WITHIN_EPOCHS = 5
RETAKEN_WITHIN_S = 10
# What `--share fair` takes, of what the streams that would fill the link alone take beside the same flows.
FAIR_FROM, FAIR_TO = 0.9, 1.2
# What `--share background` takes from others, of what they have alone.
BACKGROUND_HARM = 0.1


def row_bars(found: Found, names: Sequence[str]) -> list[Bar]:
    """The default rule against the first of each row, and its time to 90 %, under the links' short names."""
    return default_bars(found, [replace(case(name), title=name) for name in names])


def fixed_bars(found: Found, of: Case, best_number: int | None, own: str = DEFAULT,
               more: float = MORE_WORKERS) -> list[Bar]:
    """Against the best fixed number of the sweep, in the same rotation."""
    there = found.get(of.name, {})
    mover = f"fixed {best_number}"
    pair = ratio(there.get(own, []), there.get(mover, []))
    if pair is None or best_number is None:
        return []
    used = statistics.median(workers(run) for run in there[own])
    name = of.name if own == DEFAULT else f"{of.name}, {own}"
    return [*at_least(f"{name}: ÷ {mover}", pair, LEAST),
            Bar(f"{name}: workers ÷ those of {mover}", f"≤ {more:g}", f"{used / best_number:.2f}",
                used <= more * best_number, pair.count)]


def full_bars(found: Found, of: Case, best_number: int | None) -> list[Bar]:
    """Of a transfer that takes what it can get: beside others more workers bring a little more for long."""
    return fixed_bars(found, of, best_number, FULL.name, FULL_WORKERS)


def all_within(values: Sequence[float | None], most: float) -> bool:
    return all(value is not None and value <= most for value in values)


def step_bars(found: Found) -> list[Bar]:
    bars = []
    for name in STEPS:
        runs = found.get(name, {}).get(DEFAULT, [])
        for step in steps(case(name)) if runs else []:
            counts = [again(run, step) for run in runs]
            bars.append(Bar(f"{step.what}: epochs to 90 %", f"≤ {WITHIN_EPOCHS} each time", counted(counts),
                            all_within(counts, WITHIN_EPOCHS), len(runs)))
    return bars


def shares(found: Found, count: int, rule: str) -> list[Share]:
    of = share_case(count)
    return [share(of, run) for run in found.get(of.name, {}).get(rule, []) if len(run.logs) == count]


def share_bars(found: Found) -> list[Bar]:
    bars = []
    for count in TRANSFERS:
        there = shares(found, count, DEFAULT)
        if not there:
            continue
        indices = [each.index for each in there]
        left = [value for each in there for value in each.retaken_s]
        bars += [Bar(f"{count} transfers: Jain's index within {FAIR_WITHIN_S} s of the last join", f"≥ {FAIR:g}",
                     counted(indices, 3), all(each.is_fair for each in there), len(there)),
                 Bar(f"{count} transfers: s to retake what was freed", f"≤ {RETAKEN_WITHIN_S}", counted(left),
                     all_within(left, RETAKEN_WITHIN_S), len(there))]
    return bars


def harm_bars(found: Found) -> list[Bar]:
    bars = []
    for name in HARM:
        there, fair_bps = found.get(name, {}), fair(found, name)
        if (runs := there.get(DEFAULT)) and fair_bps:
            taken = statistics.median(harm(run).ours_bps for run in runs) / fair_bps
            bars.append(Bar(f"{name}: `{DEFAULT}` ÷ the streams that fill the link alone",
                            f"{FAIR_FROM:g} to {FAIR_TO:g}", f"{taken:.2f}", FAIR_FROM <= taken <= FAIR_TO, len(runs)))
        if runs := there.get(BACKGROUND.name):
            done = statistics.median(harm(run).harm for run in runs)
            bars.append(Bar(f"{name}: harm by `{BACKGROUND.name}`", f"≤ {BACKGROUND_HARM:g}", f"{done:.2f}",
                            done <= BACKGROUND_HARM, len(runs)))
    return bars
