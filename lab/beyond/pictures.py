"""Rate and streams over time on these links, as SVG."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from lab.beyond.cases import DISKS, STEPS, TRANSFERS, Step, case, harm as harm_case, share as share_case, steps
from lab.beyond.figures import harm, share
from lab.beyond.rules import DEFAULT
from lab.grid.case import Case
from lab.grid.figures import FIXED, Found, Run, best, medians
from lab.grid.show import COLOURS, REPEATS, by_stage, logged, over_time, repeats, shown
from lab.ground.stats import median_at
from lab.links.background import moved
from lab.pages import plot
from lab.runs.epochs import Epoch

# The rules shown where a link steps.
STEPPED = (DEFAULT, "gradient", "aimd", "fts3")
# What fits above a picture.
MAX_LETTERS = 90
# How often other traffic is drawn.
EVERY_S = 1.0


def headed(of: Case) -> Case:
    """Under as much of its description as fits above a picture."""
    clause = of.title.partition(":")[0]
    return replace(of, title=clause if len(clause) <= MAX_LETTERS else of.name)


def link_picture(found: Found, of: Case) -> str | None:
    """The default rule, the best of the other rules, the best fixed number and the slowest rule."""
    there = found.get(of.name, {})
    rules = [mover for mover in there if mover != DEFAULT and not mover.startswith(FIXED)]
    movers = [DEFAULT] if DEFAULT in there else []
    fixed = best(there, lambda mover: mover.startswith(FIXED))
    first = best(there, lambda mover: mover in rules)
    last = min(rules, key=lambda mover: medians(there[mover]), default=None)
    # Each once, though the best of the rules may be the slowest too.
    movers += [mover for mover in dict.fromkeys((first, fixed, last)) if mover is not None and mover not in movers]
    marks = [] if of.goodput_bps is None else [of.goodput_bps / 1e6]
    return over_time(found, headed(of), movers, marks=marks) if len(movers) > 1 else None


def drawn(log: Sequence[Epoch], value: Callable[[Epoch], float], joined_s: float = 0.0) -> list[tuple[float, float]]:
    return [(joined_s + epoch.end_s, value(epoch)) for epoch in log]


def step_picture(found: Found, name: str) -> str | None:
    of, those = case(name), shown(found.get(name, {}), STEPPED)
    if not those:
        return None
    streams = logged(those, lambda epoch: epoch.streams)
    panels = [plot.Panel("Mbit/s (dashed: what the link carries)", repeats(those), carried(steps(of)))]
    return plot.draw(headed(of).title, panels + ([plot.Panel("streams", streams)] if streams else []), REPEATS)


def carried(there: Sequence[Step]) -> list[float]:
    return sorted({step.carries_bps / 1e6 for step in there})


def share_picture(found: Found, count: int) -> str | None:
    of = share_case(count)
    runs = [run for run in found.get(of.name, {}).get(DEFAULT, []) if len(run.logs) == count]
    if not runs:
        return None
    run = runs[median_at([share(of, each).index for each in runs])]

    def lines(value: Callable[[Epoch], float]) -> list[plot.Line]:
        return [plot.Line(f"transfer {i + 1}", colour, [(joined, 0.0), *drawn(log, value, joined)])
                for i, (log, (joined, _), colour) in enumerate(zip(run.logs, of.visits, COLOURS))]

    equal = [] if of.goodput_bps is None else [of.goodput_bps / 1e6 / count]
    return plot.draw(f"{of.title}, under {DEFAULT}", [
        plot.Panel("Mbit/s (dashed: equal shares)", lines(lambda epoch: epoch.goodput_bps / 1e6), equal),
        plot.Panel("streams", lines(lambda epoch: epoch.streams))], "the run of median fairness")


def harm_picture(found: Found, name: str) -> str | None:
    of = harm_case(name)
    runs: list[Run] = found.get(name, {}).get(DEFAULT, [])
    if not runs:
        return None
    run = runs[median_at([harm(each).harm for each in runs])]
    others = run.record.notes["others"]
    seconds = [EVERY_S * i for i in range(1, int(of.seconds / EVERY_S) + 1)]
    flow = [(s, moved(others, s - EVERY_S, s) / 1e6) for s in seconds]
    ours = [(s, run.between(s - EVERY_S, s) / 1e6) for s in seconds]
    return plot.draw(of.title, [plot.Panel("Mbit/s", [plot.Line(DEFAULT, plot.BLUE, ours),
                                                      plot.Line("the plain flows", plot.ORANGE, flow)])],
                     "the run of median harm")


def pictures(found: Found, links: Sequence[str]) -> dict[str, str]:
    """By the name of the link."""
    made = {link: link_picture(found, case(link)) for link in links}
    made |= {f"{link}-stages": by_stage(found, headed(case(link)), DEFAULT) for link in DISKS}
    made |= {name: step_picture(found, name) for name in STEPS}
    made |= {share_case(count).name: share_picture(found, count) for count in TRANSFERS}
    return {name: picture for name, picture in made.items() if picture is not None}
