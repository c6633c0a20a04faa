"""How many files, of what shape, and who copies them."""

from functools import cache, partial

from lab.grid.case import Case
from lab.grid.run import SEED, Cell
from lab.ground.places import REPOSITORY
from lab.links.scenario import read
from lab.many import idle
from lab.many.idle import MOVERS, Shape
from lab.rivals.base import Contender
from lab.rivals.rsyncd import RsyncDaemon
from lab.rivals.ssh import RcloneSftp
from lab.rivals.tidegate import Tidegate
from lab.runs.datasets import KB, Plan
from lab.shard import Options, Shard, grid, known_of, named, results

MILLION, FEW = 1_000_000, 30_000
IDLE = "many-idle"
WHOLE = Shape("million", f"{MILLION:,} files, a thousand in each directory", MILLION, 1000)
WIDE = Shape("one-directory", "a directory of 500,000 names", 500_000, 500_000)
SHAPES = (WHOLE, WIDE)
REPEATS = 7

FIRST, FIRST_FEW = "million-20ms", "thirty-thousand-20ms"
# rclone, which waits for each file, is as quick with few as with many.
MOST_S = {FIRST: 600.0, FIRST_FEW: 900.0}
FILES = {FIRST: MILLION, FIRST_FEW: FEW}
TRUSTED, CLEAR = Tidegate("a"), Tidegate("b")
RSYNC, RCLONE = RsyncDaemon(one=True), RcloneSftp()
PAIRS: dict[str, tuple[Contender, ...]] = {FIRST: (CLEAR, TRUSTED, RSYNC), FIRST_FEW: (TRUSTED, RCLONE)}


@cache
def case(name: str) -> Case:
    path = read(REPOSITORY / "scenarios" / "small-files-20ms.toml")
    files = FILES[name]
    data = Plan(name, SEED, tuple((f"d{i // 1000:05}/f{i:07}.dat", KB) for i in range(files)))
    title = f"{files:,} files of 1 KB, seed {SEED}, over 2 Gbit/s at a round-trip time of 20 ms"
    # One connection fills the link; only rclone, which waits for each file, is told of more.
    return Case(name, title, path, MOST_S[name], data, many=name == FIRST_FEW)


def cells(name: str) -> list[Cell]:
    return [Cell(case(name), mover) for mover in PAIRS[name]]


def measure_idle(options: Options) -> bool:
    shapes, *_ = named("tree", options.only, [shape.name for shape in SHAPES])
    return idle.run_all(IDLE, [shape for shape in SHAPES if shape.name in shapes], options.repeats or REPEATS,
                        results(IDLE), options.budget_min)


def counted_idle() -> tuple[int, int]:
    able = [mover.name for mover in MOVERS if not mover.missing()]
    return known_of(IDLE, {(shape.name, mover) for shape in SHAPES for mover in able}, REPEATS)


SHARDS = (Shard(IDLE, "1,000,000 files, nothing to do, on one host", 20, measure_idle, counted_idle),
          grid("many-first", "1,000,000 files of 1 KB, first copy over 20 ms", 30, partial(cells, FIRST), repeats=3),
          grid("many-first-few", "30,000 files of 1 KB over 20 ms, beside rclone", 25, partial(cells, FIRST_FEW),
               repeats=3))
