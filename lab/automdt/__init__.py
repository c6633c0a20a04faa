"""AutoMDT (Swargo, Arslan, Arifuzzaman): figures 3, 4 and 5, table I, training, learning online."""

from collections.abc import Callable

from lab.automdt import cases
from lab.automdt.report import EXPLORED, EXPLORED_S, FIVE, ONE, THREE, TRAIN, TUNE, page
from lab.automdt.paper import FIGURE_5
from lab.grid import exploring
from lab.grid.run import Cell
from lab.ground import places
from lab.shard import Shard, grid, minutes
from lab.training import Course, training

REPEATS = 5
# Ten minutes each.
ONLINE_REPEATS = 3
# Seeds of each recipe, and about how many seconds one takes. Figure 4 is `automdt_discrete` beside `automdt`.
RECIPES = {"automdt": (5, 80.0), "automdt_discrete": (3, 240.0), "fast": (15, 1.0)}


def courses() -> list[Course]:
    """On the paper's own paths."""
    return [Course(recipe, places.REPOSITORY / "scenarios" / f"automdt-{path}.toml", seeds, expected_s)
            for path in FIGURE_5 for recipe, (seeds, expected_s) in RECIPES.items()]


def figure(name: str, title: str, cells: Callable[[], list[Cell]], repeats: int = REPEATS) -> Shard:
    return grid(name, title, minutes(cells(), repeats), cells, repeats)


SHARDS: tuple[Shard, ...] = (
    figure(THREE, "AutoMDT's figure 3: 100 files, how soon twenty workers", cases.figure3),
    figure(FIVE, "AutoMDT's figure 5: three slow stages", cases.figure5),
    figure(ONE, "AutoMDT's table I: large and mixed sets", cases.table1),
    figure(TUNE, "AutoMDT learning online", cases.online, ONLINE_REPEATS),
    exploring.shard(EXPLORED, "AutoMDT figure 5's links: explored, trained for, driven",
                    lambda: [cases.path_case(name) for name in FIGURE_5], EXPLORED_S),
    training(TRAIN, "AutoMDT's training, and figure 4: continuous and discrete actions", courses),
)

__all__ = ["SHARDS", "page"]
