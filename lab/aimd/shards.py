"""What is measured: the sweep of figure 1 left, and the controllers of its centre and right."""

from functools import partial

from lab.aimd.cases import CONTROL_S, EXTERNAL, JOINS_S, MOST, STREAMS, SWEEP_S, case
from lab.aimd.figures import sweep
from lab.grid.engine import Engine, Rule, fixed
from lab.grid.run import Cell
from lab.rivals.gridftp import GlobusMemory
from lab.shard import Shard, grid, known, lasting

SWEEP = "aimd-figure1"
# The controllers, by external streams: two hours are too few for all.
CONTROLS = {"aimd-controllers-few": (0,), "aimd-controllers-low": (1, 2), "aimd-controllers-middle": (4, 16),
            "aimd-controllers-many": (8, 32)}
RULES = (Rule("aimd", "aimd"), Rule("auto", "auto"), Rule("fts3", "fts3"), Rule("gradient", "gradient"))
GLOBUS_STREAMS, GLOBUS_EXTERNAL = (1, 8, 64), (0, 4, 32)
REPEATS = 3


def sweep_cells() -> list[Cell]:
    cells = []
    for external in EXTERNAL:
        on = case(external, SWEEP_S)
        cells += [Cell(on, Engine(fixed(n), on, max_workers=MOST)) for n in STREAMS]
        if external in GLOBUS_EXTERNAL:
            cells += [Cell(on, GlobusMemory(n)) for n in GLOBUS_STREAMS]
    return cells


def best_fixed() -> dict[int, int]:
    """By external streams, the best number of the sweep: the controllers are held against it in their own rotation."""
    return {level.external: level.best for level in sweep(known(SWEEP), SWEEP)}


def control_cells(shard: str) -> list[Cell]:
    cells, best = [], best_fixed()
    for external in CONTROLS[shard]:
        on = case(external, CONTROL_S)
        if external not in best:
            print(f"left out of {shard}: the best fixed numbers: {SWEEP} must be run first")
        there = [*RULES, *([fixed(best[external])] if external in best else [])]
        cells += [Cell(on, Engine(rule, on, max_workers=MOST)) for rule in there]
    return cells


def swept() -> int:
    return len(EXTERNAL) * len(STREAMS) + len(GLOBUS_EXTERNAL) * len(GLOBUS_STREAMS)


SHARDS: tuple[Shard, ...] = (
    grid(SWEEP, "AIMD, figure 1 left: throughput by streams beside external streams",
         lasting(REPEATS, [JOINS_S + SWEEP_S] * swept()), sweep_cells, REPEATS),
    *(grid(shard, f"AIMD, figure 1 centre and right: controllers beside "
           f"{' and '.join(map(str, some))} external streams",
           lasting(REPEATS, [JOINS_S + CONTROL_S] * len(some) * (len(RULES) + 1)), partial(control_cells, shard),
           REPEATS)
      for shard, some in CONTROLS.items()),
)
