"""Table II of the LDM paper as grids: sets A to D by Globus, Falcon, DRL, LDM-GD, LDM and our default; and figure 4.

Rates are a fortieth of the paper's: 1 Gbit/s, and on A and B 75 Mbit/s a connection, so that 40/3 streams fill the
link as they did there. The round trip is not scaled, so a file must take as long as it did: A's are 6.7 MB, for
256 MB of theirs, and B's 25 MB. C's keep their sizes, since the time they cost is round trips.
"""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

from lab.grid.case import Case
from lab.grid.engine import Engine, Rule, fixed
from lab.grid.run import Cell
from lab.links.scenario import Scenario, read
from lab.rivals.base import Contender
from lab.rivals.gridftp import GlobusAt
from lab.runs.datasets import MB, Plan, plan

HERE = Path(__file__).parent
THROTTLED = HERE / "throttled.toml"
# Who lacks something ends here, and what arrived by then counts.
BOUND_S = 90.0
# Long enough for a hundred readings; the paper's authors explored for five minutes.
EXPLORED_S = 120
SEED = 1
# Each set so often that the best takes half a minute; memory holds it once, and what arrives.
TIMES = {"A": 9, "B": 1, "C": 3, "D": 2}
SCALES = {"A": 0.2, "C": 0.4, "D": 0.75}
# B: four fifths of the bytes in files that are quick to move, the rest in four that are not.
B_SMALL, B_LARGE = (120, 25 * MB), (4, 206 * MB)
SHAPES = {"A": "576 × 6.7 MB", "B": "120 × 25 MB, then 4 × 206 MB", "C": "7,200 × 100 KB–1 MB",
          "D": "4 × 90 MB, 78 × 7.5–75 MB, 354 × 100 KB–1 MB"}

LDM = Rule("ldm", "ldm", recipe="ldm")
# The same policy, but its most likely action instead of one that is drawn.
LDM_STEADY = Rule("ldm, most likely action", "policy", recipe="ldm")
LDM_GD = Rule("ldm-gd", "gradient")
FALCON = Rule("falcon", "falcon")
DRL = Rule("drl", "discrete_rl", recipe="discrete_rl")
AUTO = Rule("auto", "auto")


def bare(rule: Rule) -> Rule:
    """In an engine like that of the paper's Falcon and DRL: a connection for each file, a file for each connection."""
    return rule.without("bare", "chunking", "pipelining")


def globus(dataset: str) -> list[GlobusAt]:
    """32 × 4 on A and B, 64 on C and D; and the same told to be quick, which the paper does not say."""
    many = (32, 4) if dataset in "AB" else (64, 1)
    return [GlobusAt(*many), GlobusAt(*many, quick=True)]


RULES = (bare(FALCON), FALCON, bare(DRL), DRL, LDM_GD, LDM, LDM_STEADY, AUTO)
# Figure 4 is about what parallelism does to the end of B: the same numbers, and the same policy, with connections that
# stay open and one stream for each file.
WHOLE = fixed(math.ceil(1000 / 75))
TAILS = tuple((rule, rule.without("unchunked", "chunking")) for rule in (WHOLE, LDM_STEADY))
# Long enough for all of it, whoever moves it.
TAIL_BOUND_S = 240.0
TAIL = "B tail"


def mixed_in() -> Plan:
    """B for figure 4: the paper says that the large files were not first in the queue, and its steps are of files that
    end one after the other. So one follows each quarter of the small ones."""
    (count, size), (large, large_size) = B_SMALL, B_LARGE
    sizes = ([size] * (count // large) + [large_size]) * large
    return Plan("B-tail", SEED, tuple((f"f{i:05}.bin", size) for i, size in enumerate(sizes)))


def shape(dataset: str) -> Plan:
    if dataset != "B":
        return plan(dataset, SEED, SCALES[dataset])
    sizes = [size for count, size in (B_SMALL, B_LARGE) for _ in range(count)]
    return Plan("B", SEED, tuple((f"d{i // 500:02}/f{i:05}.bin", size) for i, size in enumerate(sizes)))


@cache
def path_of(dataset: str) -> Scenario:
    throttled = read(THROTTLED)
    if dataset in "AB":
        return throttled
    description = "LDM, sets C and D, at a fortieth: nothing throttles a stream on a link of 1 Gbit/s, New York to CERN"
    return replace(throttled, name="ldm-open", description=description,
                   network=replace(throttled.network, worker_bps=throttled.link.rate_bps))


@cache
def case(dataset: str) -> Case:
    throttled = "75 Mbit/s a connection" if dataset in "AB" else "connections not throttled"
    # What a connection moves that nothing throttles, only trying tells: 90 ms are far for one.
    explored_s = EXPLORED_S if dataset in "CD" else None
    return Case(dataset, f"set {dataset}, {throttled}", path_of(dataset), BOUND_S, shape(dataset), TIMES[dataset],
                explored_s=explored_s)


@cache
def told_case(dataset: str) -> Case:
    """The same where a rule says itself whether it explores."""
    return replace(case(dataset), explored_s=None)


@cache
def tail_case() -> Case:
    return Case(TAIL, "set B, its large files among the others", path_of("B"), TAIL_BOUND_S, mixed_in())


def movers(dataset: str) -> list[Contender]:
    return [*globus(dataset), *(Engine(rule, case(dataset)) for rule in RULES)]


def cells(datasets: str) -> list[Cell]:
    return [Cell(case(dataset), mover) for dataset in datasets for mover in movers(dataset)]


def tail_cells() -> list[Cell]:
    return [Cell(tail_case(), Engine(rule, tail_case())) for pair in TAILS for rule in pair]
