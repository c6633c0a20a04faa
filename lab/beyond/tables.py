"""The tables about what happens during a run: steps, shares and harm."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from lab.beyond.bars import shares
from lab.beyond.cases import HARM, STEPS, TRANSFERS, case, harm as harm_case, steps
from lab.beyond.figures import FAIR, FAIR_WITHIN_S, again, fair, harm, streams_after, streams_between
from lab.beyond.rules import CHANGING, HARMING, SHARING
from lab.grid.figures import Found, Run, medians, numbered
from lab.ground.stats import counted
from lab.links.schema import Scenario, at
from lab.pages.parts import mbit, table


def sweep_line(swept: Found, link: str, best: Mapping[str, int]) -> str:
    """What each fixed number got, in one line."""
    there = {n: medians(runs) for n, runs in numbered(swept.get(link, {})).items()}
    if not there:
        return "The sweep of fixed numbers: not measured yet.\n\n"
    told = ", ".join(f"{n}: {mbit(bps)}" for n, bps in sorted(there.items()))
    return f"The sweep of fixed numbers, Mbit/s: {told}; best is {best[link]}, the least within 1 %.\n\n"


def parts_table(found: Found, name: str) -> str:
    """Each part of a run through which the traffic of others comes and goes; nothing where it does not."""
    there, path = found.get(name, {}), case(name)
    comings = [step.at_s for step in path.scenario.timeline if step.others_streams is not None]
    if not there or not comings:
        return ""
    parts = list(pairwise([0.0, *comings, path.seconds]))

    def cell(runs: Sequence[Run], part: tuple[float, float]) -> str:
        used = medians(runs, lambda run: streams_between(run, *part))
        return f"{mbit(medians(runs, lambda run: run.between(*part)))} ({used:.1f})"

    heads = [f"{begin:g} to {end:g} s, {beside(path.scenario, begin)}" for begin, end in parts]
    rows = [[f"`{mover}`", *(cell(there[mover], part) for part in parts)]
            for mover in sorted(there, key=lambda mover: -medians(there[mover]))]
    return "Mbit/s, and mean streams, while others come and go:\n\n" + table(["mover", *heads], rows)


def beside(path: Scenario, at_s: float) -> str:
    streams = at(path, at_s).others.streams
    return f"beside {streams}" if streams else "alone"


def steps_table(found: Found) -> str:
    rows = []
    for name in STEPS:
        there = found.get(name, {})
        for step in steps(case(name)):
            for rule in (rule.name for rule in CHANGING if rule.name in there):
                runs = there[rule]
                used = [n for run in runs if (n := streams_after(run, step)) is not None]
                rate = statistics.median(run.between(step.at_s + 1, step.until_s) for run in runs)
                rows.append([step.what, f"`{rule}`", counted([again(run, step) for run in runs]), mbit(rate),
                             mbit(step.carries_bps), counted(used), str(len(runs))])
    return table(["becomes", "rule", "epochs to 90 %", "Mbit/s until the next", "it carries",
                  "streams in the last 10 s", "n"], rows) if rows else ""


def shares_table(found: Found) -> str:
    rows = []
    for count in TRANSFERS:
        for rule in SHARING:
            if there := shares(found, count, rule.name):
                rows.append([str(count), f"`{rule.name}`", counted([each.fair_after_s for each in there]),
                             counted([each.index for each in there], 3),
                             "; ".join(", ".join(mbit(bps) for bps in each.rates) for each in there),
                             "; ".join(", ".join(f"{n:g}" for n in each.streams) for each in there),
                             counted([value for each in there for value in each.retaken_s]), str(len(there))])
    return table(["transfers", "rule", f"s to an index of {FAIR:g}", f"index after {FAIR_WITHIN_S} s", "Mbit/s of each",
                  "streams of each", "s to retake what was freed", "n"], rows) if rows else ""


def harm_table(found: Found) -> str:
    rows = []
    for name in HARM:
        there, fair_bps = found.get(name, {}), fair(found, name)
        for rule in (rule.name for rule in HARMING if rule.name in there):
            runs = there[rule]
            all_ = [harm(run) for run in runs]
            ours = statistics.median(each.ours_bps for each in all_)
            rows.append([harm_case(name).title, f"`{rule}`", mbit(statistics.median(each.alone_bps for each in all_)),
                         mbit(statistics.median(each.beside_bps for each in all_)),
                         mbit(ours), "" if fair_bps is None else f"{ours / fair_bps:.2f}",
                         counted([each.harm for each in all_], 2),
                         f"{statistics.median(each.share for each in all_):.2f}",
                         f"{statistics.median(run.streams for run in runs):.1f}", str(len(runs))])
    return table(["link", "rule", "the flows alone, Mbit/s", "beside us", "ours", "÷ what fills alone", "harm",
                  "of an equal share", "our streams", "n"], rows) if rows else ""
