"""What is copied and read, over which link, and by whom."""

from functools import cache, partial

from lab.grid.case import Case
from lab.grid.run import SEED, Cell
from lab.ground.places import REPOSITORY
from lab.links.scenario import Scenario, read
from lab.python import ranges
from lab.python.readers import FILE, RANGES, WHOLE, PythonCopy
from lab.rivals.tidegate import Tidegate
from lab.runs.datasets import MB, Plan, plan
from lab.shard import Options, Shard, grid, known_of, named, results

COPIED = ("A", "C")
COPY_S = 60.0
REPEATS = 5
# Who is not done by then counts by what has arrived.
WHOLE_S = 60.0
LARGE = Plan("large", SEED, ((FILE, 2000 * MB),))
PROGRAM, COPY = Tidegate("a"), PythonCopy()
RANGES_SHARD, WHOLE_CASE = "python-ranges", "python-whole"


def far() -> Scenario:
    return read(REPOSITORY / "lab" / "scenarios" / "ssh-20ms.toml")


@cache
def copied(what: str) -> Case:
    path = read(REPOSITORY / "lab" / "scenarios" / "ssh-near.toml")
    data = plan(what, SEED)
    title = f"Set {what}, {len(data.files)} files, {data.size / 1e9:.2f} GB, seed {SEED}; {path.description}"
    return Case(f"python-copy-{what.lower()}", title, path, COPY_S, data)


@cache
def whole() -> Case:
    path = read(REPOSITORY / "scenarios" / "rtt-50.toml")
    return Case(WHOLE_CASE, f"One file of {LARGE.size / 1e9:g} GB; {path.description}", path, WHOLE_S, LARGE)


def copy_cells() -> list[Cell]:
    return [Cell(copied(what), mover) for what in COPIED for mover in (PROGRAM, COPY)]


def measure_ranges(options: Options) -> bool:
    wanted, *_ = named("reader", options.only, [reader.name for reader in RANGES])
    return ranges.run_all(RANGES_SHARD, far(), [reader for reader in RANGES if reader.name in wanted],
                          options.repeats or REPEATS, results(RANGES_SHARD), options.budget_min)


def counted_ranges() -> tuple[int, int]:
    able = [reader.name for reader in RANGES if not reader.missing()]
    return known_of(RANGES_SHARD, {("ranges", name) for name in able}, REPEATS)


SHARDS = (grid("python-copy", "sets A and C by the package and by the program", 8, copy_cells, REPEATS),
          Shard(RANGES_SHARD, f"{ranges.COUNT:,} ranges of {ranges.LENGTH >> 10} KiB at 20 ms by fsspec", 10,
                measure_ranges, counted_ranges),
          grid(WHOLE_CASE, "one large file at 50 ms by fsspec", 30,
               lambda: [Cell(whole(), reader) for reader in WHOLE], REPEATS))
