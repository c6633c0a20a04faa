"""What the lab can measure, piece by piece: a shard takes two hours at most and goes on where it was stopped."""

import contextlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab.ground import places
from lab.ground.results import Record, load
from lab.ground.shell import CommandFailed
from lab.grid.run import Cell, Settings, run_all

Item = TypeVar("Item")


class NotHere(SystemExit):
    """A word that names nothing in this shard; it may in another."""


def named(what: str, only: Sequence[str], *groups: Iterable[str]) -> list[set[str]]:
    """Those of each group that the words name; all of a group of which they name none."""
    there = [set(group) for group in groups]
    if unknown := set(only).difference(*there):
        # Names may have commas and spaces in them.
        raise NotHere(f"no {what} here is called {' or '.join(sorted(unknown))}; there are "
                      + "; ".join(sorted(set().union(*there))))
    return [group & set(only) or group for group in there]


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    repeats: int | None = None
    budget_min: float | None = None
    # These links or movers only, by name.
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shard:
    """A part of the lab with a name of its own."""

    name: str
    title: str
    minutes: int
    measure: Callable[[Options], bool]
    # How many of how many runs are measured; None where that cannot be told.
    counted: Callable[[], tuple[int, int]] | None = None

    def measured(self) -> tuple[int, int] | None:
        """The same, and None too where it depends on a program that is not there."""
        try:
            # What is left out is said when it would be measured.
            with contextlib.redirect_stdout(io.StringIO()):
                return None if self.counted is None else self.counted()
        except (CommandFailed, OSError):
            return None


@dataclass(frozen=True)
class Page:
    """One page of results: its Markdown, and the pictures and CSV files beside it."""

    name: str
    text: str
    beside: Mapping[str, str]

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{self.name}.md").write_text(self.text)
        for name, text in self.beside.items():
            (directory / name).write_text(text)


def results(shard: str) -> Path:
    return places.BUILD / "lab" / f"{shard}.jsonl"


def known(shard: str) -> list[Record]:
    return load(results(shard))


def grid(name: str, title: str, minutes: int, cells: Callable[[], list[Cell]], repeats: int = 5) -> Shard:
    """A shard that is a grid of links by movers."""

    def measure(options: Options) -> bool:
        wanted = selected("link or mover", cells(), options.only, names)
        return run_all(wanted, Settings(name, options.repeats or repeats, results(name), budget_min=options.budget_min))

    def counted() -> tuple[int, int]:
        return known_of(name, {names(cell) for cell in cells() if not cell.contender.missing()}, repeats)

    return Shard(name, title, minutes, measure, counted)


def names(cell: Cell) -> tuple[str, str]:
    return cell.case.name, cell.contender.name


def known_of(shard: str, cells: set[tuple[str, str]], repeats: int) -> tuple[int, int]:
    """How many of how many runs of these cells are known."""
    done = {(r.set, r.contender, r.repeat) for r in known(shard) if r.ok and r.repeat < repeats}
    return sum((row, column) in cells for row, column, _ in done), repeats * len(cells)


def selected(what: str, items: Sequence[Item], only: Sequence[str], of: Callable[[Item], tuple[str, str]]) -> list[Item]:
    """Words choose among the rows of a table, among its columns, or both."""
    rows, columns = named(what, only, (of(item)[0] for item in items), (of(item)[1] for item in items))
    return [item for item in items if of(item)[0] in rows and of(item)[1] in columns]


# How long a grid will take, before anything of it was measured.

# Movers that climb, or that lack something, take longer than the link would.
TIMES_THE_BEST = 1.6
# The link, the servers, and the comparison of what arrived.
AROUND_S = 8.0
# To build a link, start what runs on it and take it away.
LINK_S = 3.5


def expected_s(cell: Cell) -> float:
    """As long as a run may take, or as its data takes where that ends it sooner."""
    case = cell.case
    if case.data is None or case.goodput_bps is None:
        return AROUND_S + case.seconds
    best_s = case.data.size * case.times * 8 / case.goodput_bps
    return AROUND_S + min(case.seconds, TIMES_THE_BEST * best_s)


def lasting(repeats: int, seconds: Iterable[float]) -> int:
    """The minutes of runs that last so long each, where a link is all there is to be made."""
    return round(repeats * sum(each + LINK_S for each in seconds) / 60)


def minutes(cells: Iterable[Cell], repeats: int) -> int:
    return round(sum(map(expected_s, cells)) * repeats / 60)
