"""What is measured: the links in pieces of an hour and a half, more workers where the most of a sweep are the best, then
those links again on which the default rule did worst."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from lab.drawn.cases import Link, cells, links, swept
from lab.drawn.choice import CHOICE, Choice
from lab.drawn.draw import MAX_WORKERS
from lab.drawn.figures import merged, standing, sweep
from lab.grid.figures import Found
from lab.grid.run import Cell
from lab.shard import Options, Shard, grid, known, minutes

PAGE = "beyond-random"
PIECE = 15
PIECES = tuple(f"{PAGE}-{i + 1}" for i in range(-(-CHOICE.links // PIECE)))
FURTHER = f"{PAGE}-further"
# So many links are run twice more.
WORST, WORST_REPEATS = 10, 2
AGAIN = f"{PAGE}-worst"


def piece_cells(i: int) -> list[Cell]:
    return cells(links(CHOICE, i * PIECE, (i + 1) * PIECE), CHOICE.rules)


def measured(*shards: str) -> Found:
    return merged({shard: known(shard) for shard in shards})


def further_cells(there: Sequence[Link], found: Found) -> list[Cell]:
    """What the sweeps of these links are to have besides what was tried first."""
    parts = [part for link in there for part in link.parts]
    return [cell for part in parts for cell in swept(part, sweep(part, found)[len(part.tried):])]


def worst(choice: Choice, found: Found) -> list[Link]:
    """None until every link was run."""
    there = links(choice)
    own = standing(there, found, choice.own.name)
    return sorted(there, key=lambda link: own[link.index].whole)[:WORST] if len(own) == len(there) else []


def again_cells() -> list[Cell]:
    """By the first runs alone, so that what is found again chooses nothing."""
    chosen = worst(CHOICE, measured(*PIECES, FURTHER))
    return cells(chosen, (CHOICE.own,)) + further_cells(chosen, measured(*PIECES, FURTHER, AGAIN))


def growing(shard: Shard, made: Callable[[], list[Cell]]) -> Shard:
    """One of which what was measured may ask for more: as often as numbers of workers can double."""
    def measure(options: Options) -> bool:
        for _ in range(MAX_WORKERS.bit_length()):
            before = len(made())
            if not shard.measure(options):
                return False
            if len(made()) == before:
                break
        return True

    return replace(shard, measure=measure)


def piece(i: int) -> Shard:
    made = piece_cells(i)
    last = min((i + 1) * PIECE, CHOICE.links)
    title = f"random links of seed {CHOICE.seed}: {i * PIECE + 1} to {last}"
    return grid(PIECES[i], title, max(1, minutes(made, 1)), partial(piece_cells, i), 1)


def further() -> Shard:
    def made() -> list[Cell]:
        return further_cells(links(CHOICE), measured(*PIECES, FURTHER))

    title = "random links with more workers, where the most of a sweep are the best"
    return growing(grid(FURTHER, title, 10, made, 1), made)


def again() -> Shard:
    usual = cells(links(CHOICE, 0, WORST), (CHOICE.own,))
    title = f"the {WORST} random links again on which {CHOICE.own.name} did worst"
    there = growing(grid(AGAIN, title, max(1, minutes(usual, WORST_REPEATS)), again_cells, WORST_REPEATS), again_cells)

    def measure(options: Options) -> bool:
        if not again_cells():
            print(f"left out: {AGAIN}: all {CHOICE.links} links must be run first, and {FURTHER}")
            return True
        return there.measure(options)

    return replace(there, measure=measure)


SHARDS: tuple[Shard, ...] = (*(piece(i) for i in range(len(PIECES))), further(), again())
