"""What is asked on AutoMDT's paths and sets, and what the runs came to."""

import statistics
from collections.abc import Sequence

from lab.automdt import cases
from lab.automdt.paper import FIGURE_3, FIGURE_5, LEAST_S, TABLE_I
from lab.grid.figures import Found, Run, medians, ratio, runs_of
from lab.ground.stats import counted
from lab.pages.parts import Bar, at_least
from lab.pages.published import REACHED, Published
from lab.runs import epochs
from lab.runs.epochs import Epoch

DEFAULT = cases.AUTO.name
PUBLISHED = (cases.ROOMY, cases.MARLIN, cases.FALCON, cases.GRADIENT)
AGENTS = (cases.AUTOMDT, cases.AGENT)
# Steady from here on: Marlin needs half a minute on these paths.
STEADY_S = 30.0
WITHIN_S, DEVIATION, ASTRAY, OF_AGENTS = 5.0, 1.0, 0.25, 0.98
# The paper's row, and the mover here that stands for it.
STANDS_FOR = {"Globus": cases.GLOBUS.name, "Marlin": cases.ROOMY.name, "AutoMDT": cases.AUTOMDT.name}


def steady(run: Run) -> list[Epoch]:
    """The epochs in which it should no longer climb; none where it logged none."""
    return epochs.since(run.logs[0], STEADY_S) if run.logs else []


def unsteady(there: Sequence[Run]) -> list[float]:
    return [max(epochs.deviations(late)) for run in there if (late := steady(run))]


def astray(there: Sequence[Run], path: str) -> list[float]:
    return [epochs.furthest(epochs.usual(late), FIGURE_5[path].best) for run in there if (late := steady(run))]


def goodput_bps(path: str) -> float:
    return cases.path_case(path).goodput_bps or 0.0


def soon(there: Sequence[Run], path: str) -> list[float | None]:
    return [run.time_to(0.9 * goodput_bps(path)) for run in there]


def path_bars(found: Found, path: str) -> list[Bar]:
    """Reached means in every run; ratios are of pairs."""
    there = runs_of(found, path, DEFAULT)
    if not there:
        return []
    what, times = f"{path} is slow: `{DEFAULT}`", soon(there, path)
    made = [Bar(f"{what}, s to 90 % of the link", f"≤ {WITHIN_S:g}", counted(times),
                all(at_s is not None and at_s <= WITHIN_S + 0.05 for at_s in times), len(times))]
    if deviations := unsteady(there):
        made.append(Bar(f"{what}, standard deviation of workers from {STEADY_S:.0f} s on, the most of a stage",
                        f"≤ {DEVIATION:g}", counted(deviations, 2), max(deviations) <= DEVIATION, len(deviations)))
    if strays := astray(there, path):
        made.append(Bar(f"{what}, workers from the best, the most of a stage", f"≤ {100 * ASTRAY:.0f} %",
                        counted([100 * share for share in strays]) + " %", max(strays) <= ASTRAY, len(strays)))
    for other, least in [*((rule.name, 1.0) for rule in PUBLISHED), *((rule.name, OF_AGENTS) for rule in AGENTS)]:
        made += at_least(f"{what} ÷ {other}", ratio(there, runs_of(found, path, other)), least)
    return made


def table_bars(found: Found) -> list[Bar]:
    """The headline ratios of table I."""
    made = []
    for name, published in TABLE_I.items():
        own = runs_of(found, name, STANDS_FOR["AutoMDT"])
        for row in ("Globus", "Marlin"):
            beside = ratio(own, runs_of(found, name, STANDS_FOR[row]))
            wanted = Published(published["AutoMDT"] / published[row])
            if beside is None:
                continue
            theirs = medians(runs_of(found, name, STANDS_FOR[row]))
            most = (cases.set_case(name).goodput_bps or 0.0) / theirs if theirs else 0.0
            why = wanted.told(beside.median) or (
                f"the link allows {most:.2f} at most" if wanted.short(beside.median) and most < wanted.value else "")
            made.append(Bar(f"{name}: AutoMDT ÷ {row}", wanted.asked, f"{beside}; {why}" if why else str(beside),
                            wanted.met(beside.median), beside.count))
    return made


def least_s() -> float:
    """How long figure 3's files take at the rate of the link."""
    case = cases.set_case("large")
    return 8 * case.data.size * case.times / (case.goodput_bps or 1.0)


def figure3_bars(found: Found) -> list[Bar]:
    own, marlin = runs_of(found, "large", STANDS_FOR["AutoMDT"]), runs_of(found, "large", STANDS_FOR["Marlin"])
    beside, wanted = ratio(own, marlin), Published(FIGURE_3["Marlin"][0] / FIGURE_3["AutoMDT"][0])
    if beside is None:
        return []
    met = wanted.met(beside.median)
    here = [medians(there, lambda run: run.record.seconds) / least_s() for there in (own, marlin)]
    published = [FIGURE_3[name][0] / LEAST_S for name in ("AutoMDT", "Marlin")]
    why = "" if met else (f"; {wanted.told(beside.median) or 'short of it'}; AutoMDT takes {here[0]:.2f} times as long as at full rate (the paper's {published[0]:.2f}), "
                          f"Marlin {here[1]:.2f} times ({published[1]:.2f})")
    return [Bar("figure 3: Marlin's time ÷ AutoMDT's", wanted.asked, f"{beside}{why}", met,
                beside.count)]


def second_half(run: Run) -> tuple[float, float]:
    """Mean Mbit/s and workers of all stages in the second half of a run."""
    return run.between(run.end_s / 2, run.end_s) / 1e6, sum(epochs.mean(run.logs[0], run.end_s / 2))


def online_bars(found: Found) -> list[Bar]:
    """The paper saw the same speed and 1 % less concurrency; here it is said which way it falls."""
    own, still = (runs_of(found, "online", rule.name) for rule in (cases.ONLINE, cases.STEADY))
    if not own or not still:
        return []
    speed, count = (statistics.median(second_half(run)[i] for run in own)
                    / statistics.median(second_half(run)[i] for run in still) for i in range(2))
    return [Bar("learning online ÷ the policy as it was: speed, second halves", "the paper's 1.00", f"{speed:.3f}",
                speed >= REACHED, len(own)),
            Bar("learning online ÷ the policy as it was: workers, second halves", "the paper's 0.99", f"{count:.3f}",
                count <= 1.0, len(own))]
