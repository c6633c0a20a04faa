"""One link that twenty streams fill: a transfer alone, fixed numbers, and eight transfers with a controller each."""

from dataclasses import replace

from lab.eight.budget import Budgeted
from lab.grid.case import Case
from lab.grid.engine import Engine, Rule, fixed
from lab.grid.run import Cell
from lab.ground.places import REPOSITORY
from lab.links.scenario import read
from lab.shard import Shard, grid, lasting

NAME = "fleet-controllers"
COUNT, REPEATS = 8, 3
LINK_BPS, STREAM_BPS = 400_000_000, 20_000_000
# What a site would set: what fills the link, and a fifth more.
BUDGET = 24
FIXED = (8, 12, 16, 18, 20, 22, 24, 28, 32)
# Judged from when all have settled to the end.
TOGETHER_S, SWEEP_S = 60.0, 20.0
SETTLED_S, SWEEP_SETTLED_S = 30.0, 8.0

BASE = read(REPOSITORY / "scenarios" / "rtt-20.toml")
PATH = replace(BASE, name=NAME, network=replace(BASE.network, worker_bps=STREAM_BPS),
               link=replace(BASE.link, rate_bps=LINK_BPS))
SHOWN = "400 Mbit/s, 20 ms, 20 Mbit/s a stream"
ALONE = Case("alone", f"One transfer on {SHOWN}", PATH, TOGETHER_S)
SWEEP = Case("sweep", f"Fixed numbers on {SHOWN}", PATH, SWEEP_S)
TOGETHER = Case("together", f"{COUNT} transfers on {SHOWN}", PATH, TOGETHER_S, visits=((0.0, TOGETHER_S),) * COUNT)

AUTO, AIMD = Rule("auto", "auto"), Rule("aimd", "aimd")
DIVIDED = Rule(f"auto, {BUDGET} streams divided", "auto")
RULES = (AUTO, AIMD, DIVIDED)


def cells() -> list[Cell]:
    return [Cell(ALONE, Engine(AUTO, ALONE)), *(Cell(SWEEP, Engine(fixed(n), SWEEP)) for n in FIXED),
            Cell(TOGETHER, Engine(AUTO, TOGETHER)), Cell(TOGETHER, Engine(AIMD, TOGETHER)),
            Cell(TOGETHER, Budgeted(DIVIDED, TOGETHER, BUDGET))]


SHARDS: tuple[Shard, ...] = (
    grid(NAME, "eight controllers on one link, and a budget divided among them",
         lasting(REPEATS, [cell.case.seconds for cell in cells()]), cells, REPEATS),
)
