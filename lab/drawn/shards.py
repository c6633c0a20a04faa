"""What is measured: the links in pieces of an hour and a half, then those again on which the default rule did worst."""

from collections.abc import Mapping, Sequence
from functools import partial

from lab.drawn.cases import Link, cells, links
from lab.drawn.choice import CHOICE, Choice
from lab.drawn.figures import merged, standing
from lab.grid.run import Cell
from lab.ground.results import Record
from lab.shard import Shard, grid, known, minutes

PAGE = "beyond-random"
PIECE = 15
PIECES = tuple(f"{PAGE}-{i + 1}" for i in range(-(-CHOICE.links // PIECE)))
# So many links are run twice more.
WORST, WORST_REPEATS = 10, 2
AGAIN = f"{PAGE}-worst"


def piece_cells(i: int) -> list[Cell]:
    return cells(links(CHOICE, i * PIECE, (i + 1) * PIECE), CHOICE.rules)


def worst(choice: Choice, records: Mapping[str, Sequence[Record]]) -> list[Link]:
    """By the first runs alone, so that what is found again chooses nothing; none until every link was run."""
    there = links(choice)
    own = standing(there, merged(records), choice.own.name)
    return sorted(there, key=lambda link: own[link.index].whole)[:WORST] if len(own) == len(there) else []


def again_cells() -> list[Cell]:
    chosen = worst(CHOICE, {piece: known(piece) for piece in PIECES})
    if not chosen:
        print(f"left out: {AGAIN}: all {CHOICE.links} links must be run first")
    return cells(chosen, (CHOICE.own,))


def piece(i: int) -> Shard:
    made = piece_cells(i)
    last = min((i + 1) * PIECE, CHOICE.links)
    title = f"random links of seed {CHOICE.seed}: {i * PIECE + 1} to {last}"
    return grid(PIECES[i], title, max(1, minutes(made, 1)), partial(piece_cells, i), 1)


def again() -> Shard:
    usual = cells(links(CHOICE, 0, WORST), (CHOICE.own,))
    return grid(AGAIN, f"the {WORST} random links again on which {CHOICE.own.name} did worst",
                max(1, minutes(usual, WORST_REPEATS)), again_cells, WORST_REPEATS)


SHARDS: tuple[Shard, ...] = (*(piece(i) for i in range(len(PIECES))), again())
