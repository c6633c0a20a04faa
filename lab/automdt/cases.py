"""AutoMDT's experiments as grids: figure 3, figure 5, table I, and learning online.

Figure 5 is at the paper's own rates. Figure 3 and table I are at a twenty-fifth: a link of 1 Gbit/s that twenty streams
fill, files of 40 MB for 1 GB. Readers and writers are limited by the program itself, so the limits hold for our engine
only; connections and the link are limited for every program.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from lab.automdt.paper import FIGURE_5
from lab.grid.case import Case
from lab.grid.engine import Engine, Rule
from lab.grid.run import Cell
from lab.links.scenario import read
from lab.links.schema import STAGES, Scenario
from lab.rivals.base import Contender
from lab.rivals.gridftp import GlobusAt
from lab.runs.datasets import KB, MB, MIB, Plan

HERE = Path(__file__).parent
SEED = 1
MBIT = 1_000_000
PATHS_S = 60.0
BOUND_S = 90.0
# As many episodes of ten epochs as the paper went on for.
ONLINE_EPISODES, EPISODE, ONLINE_EPOCH_S = 120, 10, 0.5

AUTO = Rule("auto", "auto")
MARLIN = Rule("marlin", "marlin")
# As its authors run it: staging is a file system in memory, so large that no stage sees another.
ROOMY = Rule("marlin, 1 GiB of staging", "marlin", ("--staging", "1GiB"))
FALCON = Rule("falcon", "falcon")
GRADIENT = Rule("gradient", "gradient")
# As published: it draws its action. Then the same policy by its most likely action, and one that goes on to learn.
AUTOMDT = Rule("automdt", "automdt", recipe="automdt")
STEADY = Rule("automdt, most likely action", "policy", recipe="automdt")
ONLINE = Rule("automdt, learning online", "policy:online", recipe="automdt")
AGENT = Rule("agent of this path", "policy", recipe="fast")

# Files of one chunk each, the same ones by many names: 8 GB.
CHUNKS, CHUNKS_TIMES = Plan("chunks", SEED, tuple((f"f{i:02}.bin", 64 * MIB) for i in range(8))), 15


def path(name: str, description: str, rates: Sequence[float], link_mbit: int = 1000) -> Scenario:
    """`stages.toml` at other rates, in Mbit/s a worker, and with half of its round trip."""
    base = read(HERE / "stages.toml")
    own = {stage: replace(getattr(base, stage), worker_bps=round(rate * MBIT)) for stage, rate in zip(STAGES, rates)}
    return replace(base, name=f"automdt-{name}", description=description,
                   link=replace(base.link, rate_bps=link_mbit * MBIT, rtt_s=0.01), **own)


@cache
def path_case(name: str) -> Case:
    """One part of figure 5: more data than a minute moves."""
    read_, network, write = FIGURE_5[name].rates
    title = f"{name} is slow: {read_}, {network}, {write} Mbit/s a worker"
    description = (f"AutoMDT, figure 5, with the staging of a real transfer: the {name} stage is slow on a link of 1 "
                   "Gbit/s")
    return Case(name, title, path(f"{name}-live", description, FIGURE_5[name].rates), PATHS_S, CHUNKS, CHUNKS_TIMES)


def mixed() -> Plan:
    """The paper's 100 KB to 2 GB, the large ones at a twenty-fifth: as many of each order of magnitude, about 1 GB."""
    rng = random.Random(f"{SEED}/mixed/sizes")
    sizes: list[int] = []
    while sum(sizes) < 1000 * MB:
        sizes.append(round(100 * KB * (80 * MB / (100 * KB)) ** rng.random()))
    return Plan("mixed", SEED, tuple((f"f{i:03}.bin", size) for i, size in enumerate(sizes)))


LARGE = Plan("large", SEED, tuple((f"f{i:02}.bin", 40 * MB) for i in range(25)))


@cache
def set_case(name: str) -> Case:
    data, what = (LARGE, "100 × 40 MB") if name == "large" else (mixed(), "files of 100 KB–80 MB")
    return Case(name, f"{name}: {what}", read(HERE / "stages.toml"), BOUND_S, data, 4)


@cache
def online_case() -> Case:
    seconds = ONLINE_EPISODES * EPISODE * ONLINE_EPOCH_S
    description = "The slow reader of figure 5 at a tenth, so that what arrives in ten minutes fits into memory"
    scenario = path("read-tenth", description, [rate / 10 for rate in FIGURE_5["read"].rates], 100)
    return Case("online", "read is slow, at a tenth", scenario, seconds, CHUNKS, CHUNKS_TIMES)


def engines(case: Case, rules: Sequence[Rule], more: Sequence[object] = ()) -> list[Contender]:
    return [Engine(rule, case, more=more) for rule in rules]


GLOBUS = GlobusAt(4, 8)
GLOBUS_QUICK = GlobusAt(4, 8, quick=True)


def figure3() -> list[Cell]:
    case = set_case("large")
    return [Cell(case, mover) for mover in engines(case, (AUTO, AUTOMDT, STEADY, AGENT, ROOMY))]


def figure5() -> list[Cell]:
    return [Cell(path_case(name), mover) for name in FIGURE_5
            for mover in engines(path_case(name), (AUTO, AUTOMDT, AGENT, ROOMY, MARLIN, FALCON, GRADIENT))]


def table1() -> list[Cell]:
    return [Cell(case, mover) for case in map(set_case, ("large", "mixed"))
            for mover in (GLOBUS, GLOBUS_QUICK, *engines(case, (ROOMY, AUTOMDT, STEADY, AUTO)))]


def online() -> list[Cell]:
    case = online_case()
    return [Cell(case, mover)
            for mover in engines(case, (STEADY, AUTOMDT, ONLINE), ("--epoch", f"{ONLINE_EPOCH_S * 1000:.0f}ms"))]
