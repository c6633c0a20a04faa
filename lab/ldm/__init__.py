"""LDM (Swargo, Arifuzzaman): table II, figures 3 and 4, training."""

from lab.ground import places
from lab.ldm import cases
from lab.ldm.report import AB, CD, TRAINING, page
from lab.shard import Shard, grid, minutes
from lab.training import Course, training

REPEATS = 5
SEEDS = 15
# The paper's own path; `throttled.toml` is the same at a fortieth.
PAPERS = places.REPOSITORY / "scenarios" / "ldm-40g.toml"


def courses() -> list[Course]:
    return [Course(recipe, path, SEEDS, expected_s)
            for path in (cases.THROTTLED, PAPERS) for recipe, expected_s in (("ldm", 40.0), ("fast", 1.0))]


def table_two(name: str, datasets: str) -> Shard:
    return grid(name, f"LDM's table II: sets {datasets[0]} and {datasets[1]}",
                minutes(cases.cells(datasets), REPEATS), lambda: cases.cells(datasets), REPEATS)


SHARDS: tuple[Shard, ...] = (table_two(AB, "AB"), table_two(CD, "CD"),
                             training(TRAINING, "LDM's training: 15 seeds on two paths", courses))

__all__ = ["SHARDS", "page"]
