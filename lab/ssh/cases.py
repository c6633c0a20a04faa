"""The links, from the scenarios of the same names, what is pushed over them, and by whom."""

from functools import cache, partial

from lab.grid.case import Case
from lab.grid.run import SEED, Cell
from lab.ground.places import REPOSITORY
from lab.links.scenario import read
from lab.rivals.push import RsyncPush, TidegateSsh, pushers
from lab.runs.datasets import KB, NAMES, Plan, plan
from lab.shard import Shard, grid

NEAR, MIDDLE, FAR = "near", "20ms", "100ms"
LINKS = (NEAR, MIDDLE, FAR)
# How much of a set is pushed: a run lasts seconds, and one window of ssh fills about 160 Mbit/s at 100 ms.
SCALE = {NEAR: 1.0, MIDDLE: 0.5, FAR: 0.25}
# Whoever is not done by then counts by what has arrived.
MOST_S = 40.0
MINUTES = {NEAR: 13, MIDDLE: 15, FAR: 20}
# One file that a single packet holds.
TINY = Plan("tiny", SEED, (("tiny.bin", 1 * KB),))
FIRST_S = 30.0

OURS, RSYNC, SCP = TidegateSsh().name, RsyncPush(1).name, "scp"


def case_name(link: str, what: str) -> str:
    return f"ssh-{link}-{what.lower()}"


@cache
def case(link: str, what: str) -> Case:
    """Set `what` over that link; `first` for the tiny file."""
    path = read(REPOSITORY / "lab" / "scenarios" / f"ssh-{link}.toml")
    name = case_name(link, what)
    if what == "first":
        return Case(name, f"One file of {TINY.size // KB} KB; {path.description}", path, FIRST_S, TINY, first_byte=True)
    data = plan(what, SEED, SCALE[link])
    title = f"Set {what}, {len(data.files)} files, {data.size / 1e9:.2f} GB, seed {SEED}; {path.description}"
    return Case(name, title, path, MOST_S, data, many=link != NEAR)


def cells(link: str, what: str) -> list[Cell]:
    return [Cell(case(link, what), mover) for mover in pushers()]


def first_cells() -> list[Cell]:
    return [Cell(case(link, "first"), mover) for link in LINKS for mover in (TidegateSsh(), RsyncPush(1))]


def shard(link: str, what: str) -> Shard:
    return grid(case_name(link, what), f"set {what} over ssh, {link}", MINUTES[link], partial(cells, link, what))


FIRST = grid("ssh-first-byte", "from return to the first byte over ssh, at 0, 20 and 100 ms", 12, first_cells, repeats=10)
SHARDS = (FIRST, *(shard(link, what) for link in LINKS for what in NAMES))
