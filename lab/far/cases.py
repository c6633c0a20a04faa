"""The links, from the scenarios of the same names, and who moves what over them."""

from functools import cache, partial

from lab.grid.case import Case
from lab.grid.engine import Engine, Rule
from lab.grid.run import Cell
from lab.ground.places import REPOSITORY
from lab.links.built import fitting
from lab.links.scenario import read
from lab.rivals.base import Contender
from lab.rivals.gridftp import GlobusAt
from lab.rivals.http import Aria2, CurlHttp, OneByOne, RcloneHttp, Wget2
from lab.rivals.rsyncd import RsyncDaemon
from lab.runs.datasets import MB, Plan, plan
from lab.shard import grid

HUGE, NEAR, FAR = "huge-file", "small-files-20ms", "small-files-100ms"
SMALL = (NEAR, FAR)
SEED = 1
# Longer than anybody with a setting of their own takes; what is late then counts by what has arrived.
HUGE_S, SMALL_S = 60.0, 90.0
# Twenty seconds of the link; source and destination lie in memory.
HUGE_FILE = Plan("huge", SEED, (("huge.bin", 2500 * MB),))

AUTO = Rule("auto", "auto")
SEALED = Rule("auto, TLS", "auto")


@cache
def case(name: str) -> Case:
    path, factor = fitting(read(REPOSITORY / "scenarios" / f"{name}.toml"))
    title = path.description + (f" (built {factor:g} times slower)" if factor > 1 else "")
    if name == HUGE:
        title = f"One file of {HUGE_FILE.size / 1e9:g} GB over 1 Gbit/s at a round-trip time of 100 ms"
        return Case(name, title, path, HUGE_S, HUGE_FILE, many=True)
    return Case(name, title, path, SMALL_S, plan("C", SEED), many=True)


def ours(on: Case) -> list[Contender]:
    return [Engine(AUTO, on), Engine(SEALED, on, level="a")]


# The best that hands have found, and tools that take one file after the other.
TUNED: dict[str, tuple[Contender, ...]] = {
    HUGE: (Aria2(), RcloneHttp(), GlobusAt(1, 8, quick=True)),
    NEAR: (CurlHttp(16), CurlHttp(64), Aria2(), Wget2(), RcloneHttp(), GlobusAt(8, quick=True), RsyncDaemon()),
    FAR: (CurlHttp(16), CurlHttp(128), Aria2(), Wget2(), RcloneHttp(), GlobusAt(16, quick=True), RsyncDaemon()),
}
SEQUENTIAL: tuple[Contender, ...] = (OneByOne(), GlobusAt(1))


def cells(name: str) -> list[Cell]:
    on = case(name)
    slow = SEQUENTIAL if name in SMALL else ()
    return [Cell(on, mover) for mover in (*ours(on), *TUNED[name], *slow)]


SHARDS = (grid("far-huge", "one huge file over 1 Gbit/s at 100 ms", 12, partial(cells, HUGE)),
          grid("far-near", "6,000 small files at 20 ms", 30, partial(cells, NEAR)),
          grid("far-small", "6,000 small files at 100 ms", 35, partial(cells, FAR)))
