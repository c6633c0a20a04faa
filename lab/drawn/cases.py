"""Each link as a run under a rule, and the two parts of it, before and after the change, as runs of the sweep."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from lab.drawn import oracle
from lab.drawn.choice import Choice
from lab.drawn.draw import Drawn, link
from lab.grid.case import Case
from lab.grid.engine import Engine, Rule
from lab.grid.run import Cell
from lab.ground.stats import rotated
from lab.links.schema import Scenario, at


@dataclass(frozen=True)
class Part:
    """The link as it stays from one second to another, and the case that tries fixed numbers on it."""

    begin_s: float
    end_s: float
    swept: Case
    tried: tuple[Rule, ...]


@dataclass(frozen=True)
class Link:
    index: int
    case: Case
    parts: tuple[Part, ...]


@cache
def link_of(choice: Choice, index: int) -> Link:
    name = choice.name(index)
    drawn = link(choice.seed, index, name, choice.seconds)
    case = case_of(drawn, drawn.scenario, drawn.scenario.description, choice.seconds)
    half = choice.seconds / 2
    parts = (part(choice, drawn, "before", 0.0, half), part(choice, drawn, "after", half, choice.seconds))
    return Link(index, case, parts)


def case_of(drawn: Drawn, scenario: Scenario, title: str, seconds: float) -> Case:
    case = Case(scenario.name, title, scenario, seconds, queue_s=drawn.queue_s)
    if files := drawn.files(seconds):
        case = replace(case, data=files[0], times=files[1])
    return case


def part(choice: Choice, drawn: Drawn, which: str, begin_s: float, end_s: float) -> Part:
    now = at(drawn.scenario, begin_s)
    shrinks = oracle.shrinks(now)
    name = f"{drawn.scenario.name}-{which}{'-long' if shrinks else ''}"
    seconds = choice.seconds if shrinks else choice.sweep_s
    # The queue holds bytes, and is told as the time they take at the first rate.
    queue_s = drawn.queue_s * drawn.scenario.link.rate_bps / now.link.rate_bps
    title = f"as it is {which} the change, by fixed numbers"
    case = case_of(replace(drawn, queue_s=queue_s), replace(now, name=name), title, seconds)
    found = oracle.tried(oracle.needed(now, drawn.file_bytes is not None))
    return Part(begin_s, end_s, case, tuple(map(oracle.rule, found)))


def links(choice: Choice, begin: int = 0, end: int | None = None) -> list[Link]:
    """Some of those that are asked for, by their place."""
    return [link_of(choice, index) for index in range(begin, min(choice.links, choice.links if end is None else end))]


def cells(there: Iterable[Link], rules: tuple[Rule, ...]) -> list[Cell]:
    """All rules on a link, each time from another one on, then its sweep."""
    made = []
    for each in there:
        made += [Cell(each.case, Engine(rule, each.case)) for rule in rotated(rules, each.index)]
        made += [cell for part in each.parts for cell in swept(part, part.tried)]
    return made


def swept(part: Part, rules: Iterable[Rule]) -> list[Cell]:
    return [Cell(part.swept, Engine(rule, part.swept)) for rule in rules]
