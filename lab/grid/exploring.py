"""As a user would: explore a path, train a policy for what was found, and let it drive; beside one that was trained on the
scenario that the link is built from, and beside the default."""

from collections.abc import Callable, Sequence

from lab.grid.case import CONTENT, Case
from lab.grid.engine import Engine, Rule
from lab.grid.figures import Found, Run, medians, ratio
from lab.grid.remarks import DEFAULT
from lab.grid.run import Cell
from lab.pages.parts import Bar, at_least, mbit, measured_table
from lab.shard import Shard, expected_s, grid

REPEATS = 3
# So near is what exploring finds to be to what the link carries.
WITHIN = 0.05
# Of the policy that knows the scenario, and of the default: no less than noise takes.
AS_GOOD = 0.98
# A run of `tidegate explore` and one of `tidegate train` for each link.
TRAINING_S = 5.0

AUTO = Rule(DEFAULT, DEFAULT)
TOLD = Rule("policy of the scenario", "policy", recipe="fast")
TEXT = """\
`tidegate explore` tries random numbers on the link for {seconds} s, `tidegate train` learns what was found by the recipe
that is its default, and the policy drives a run, as a user would have it. The policy of the scenario was trained on the
file that the link is built from. What a link carries of content is 1448 of 1514 bytes; the limits of a stream, a reader
and a writer are of content. Not shown: a path that is another when it is driven than when it was explored.

"""


def found_rule(seconds: int) -> Rule:
    return Rule("policy of what was explored", "policy", recipe="fast", explored_s=seconds)


def shard(name: str, title: str, cases: Callable[[], Sequence[Case]], seconds: int) -> Shard:
    def cells() -> list[Cell]:
        # On its own scenario, whatever the case says of exploring.
        return [Cell(each, Engine(rule, each)) for each in cases() for rule in (AUTO, TOLD, found_rule(seconds))]

    links = {case.scenario.name for case in cases()}
    whole = REPEATS * sum(map(expected_s, cells())) + len(links) * (seconds + TRAINING_S)
    return grid(name, title, round(whole / 60), cells, REPEATS)


def carried(case: Case) -> dict[str, float]:
    """What the built link carries: of all streams, of one, and of each reader and writer that is held back."""
    scenario = case.scenario
    there = {"link_bps": scenario.link.rate_bps * CONTENT,
             "stream_bps": min(scenario.network.worker_bps, scenario.link.rate_bps * CONTENT)}
    return there | {f"{name}_bps": float(own.worker_bps) for name in ("read", "write")
                    if (own := getattr(scenario, name)) is not None}


def explored_of(runs: Sequence[Run]) -> dict[str, float]:
    found: dict[str, float] = runs[0].record.notes.get("trained_for", {}) if runs else {}
    return {key: value for key, value in found.items() if value}


def off(case: Case, runs: Sequence[Run]) -> dict[str, float]:
    """Found ÷ carried, less one; what exploring saw no limit of is left out."""
    found = explored_of(runs)
    return {key: found[key] / true - 1 for key, true in carried(case).items() if key in found}


def bars(found: Found, cases: Sequence[Case], seconds: int) -> list[Bar]:
    made, said = [], set()
    for case in cases:
        there = found.get(case.name, {})
        own = there.get(found_rule(seconds).name, [])
        errors = off(case, own)
        if errors and case.scenario.name not in said:
            said.add(case.scenario.name)
            told = ", ".join(f"{key.removesuffix('_bps')} {100 * error:+.1f} %" for key, error in errors.items())
            made.append(Bar(f"{case.scenario.name}: what {seconds} s of exploring found beside what is carried",
                            f"within {100 * WITHIN:g} %", told, all(abs(error) <= WITHIN for error in errors.values()), 1))
        for other in (TOLD, AUTO):
            made += at_least(f"{case.name}: policy of what was explored ÷ {other.name}",
                             ratio(own, there.get(other.name, [])), AS_GOOD)
    return made


def section(found: Found, cases: Sequence[Case], seconds: int, name: str) -> str:
    explored, driven = [], []
    for case in cases:
        there = found.get(case.name, {})
        own = there.get(found_rule(seconds).name, [])
        for key, true in carried(case).items():
            if own and key in explored_of(own):
                explored.append([case.name, key.removesuffix("_bps"), mbit(explored_of(own)[key]), mbit(true),
                                 f"{100 * off(case, own)[key]:+.1f} %"])
            elif own:
                explored.append([case.name, key.removesuffix("_bps"), "no limit seen", mbit(true), ""])
        for rule in (AUTO, TOLD, found_rule(seconds)):
            if runs := there.get(rule.name):
                driven.append([case.name, rule.name, mbit(medians(runs)), f"{medians(runs, lambda run: run.streams):.1f}",
                               str(ratio(own, runs) or ""), str(len(runs))])
    return (f"## Explored, trained, driven\n\n`python3 -m lab run {name}` measures it. {TEXT.format(seconds=seconds)}"
            + measured_table(["case", "of", "found, Mbit/s", "carried", "off by"], explored)
            + measured_table(["case", "rule", "Mbit/s", "connections", "policy of what was explored ÷ this (95 %)", "n"],
                             driven))
