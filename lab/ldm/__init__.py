"""LDM (Swargo, Arifuzzaman): table II, figures 3 and 4, training."""

from lab.grid import exploring
from lab.ground import places
from lab.ldm import cases
from lab.ldm.report import EXPLORED, FOUR, TABLE_TWO, TRAINING, page
from lab.shard import Shard, grid, minutes
from lab.training import Course, training

# Four of a set take less than fifty minutes with no mover left out; of the tail there is time for one more.
REPEATS, TAIL_REPEATS = 4, 5
SEEDS = 15
# The paper's own path; `throttled.toml` is the same at a fortieth.
PAPERS = places.REPOSITORY / "scenarios" / "ldm-40g.toml"


def courses() -> list[Course]:
    return [Course(recipe, path, SEEDS, expected_s)
            for path in (cases.THROTTLED, PAPERS) for recipe, expected_s in (("ldm", 40.0), ("fast", 1.0))]


def table_two(dataset: str) -> Shard:
    return grid(TABLE_TWO[dataset], f"LDM's table II: set {dataset}", minutes(cases.cells(dataset), REPEATS),
                lambda: cases.cells(dataset), REPEATS)


SHARDS: tuple[Shard, ...] = (
    *map(table_two, TABLE_TWO),
    grid(FOUR, "LDM's figure 4: the end of set B with one stream a file, and with several",
         minutes(cases.tail_cells(), TAIL_REPEATS), cases.tail_cells, TAIL_REPEATS),
    exploring.shard(EXPLORED, "LDM's sets: their links explored, trained for, driven",
                    lambda: [cases.told_case(dataset) for dataset in "ABCD"], cases.EXPLORED_S),
    training(TRAINING, "LDM's training: 15 seeds on two paths", courses))

__all__ = ["SHARDS", "page"]
