"""What is to be reached with a million files."""

from collections.abc import Iterable, Sequence

from lab.grid.figures import Found, ratio
from lab.ground.results import Record
from lab.ground.stats import Ratio, paired
from lab.many.cases import CLEAR, FIRST, FIRST_FEW, RCLONE, RSYNC, TRUSTED, WHOLE, WIDE
from lab.many.idle import OURS, RsyncLocal
from lab.pages.parts import Bar, at_least

# Of rsync's seconds where nothing is to be done, and of others' rates where all is.
SECONDS, RSYNC_LEAST, RCLONE_LEAST = 0.75, 1.5, 10.0
MEMORY_MB = 300


def idle_runs(records: Iterable[Record], shape: str, mover: str) -> dict[int, Record]:
    """The good runs by their repeat; the last counts."""
    return {record.repeat: record for record in records
            if record.ok and record.set == shape and record.contender == mover}


def seconds_ratio(ours: dict[int, Record], theirs: dict[int, Record]) -> Ratio | None:
    both = sorted(ours.keys() & theirs.keys())
    return paired([ours[i].seconds for i in both], [theirs[i].seconds for i in both])


def peak_mb(records: Iterable[Record]) -> float:
    return max((float(record.notes.get("peak_bytes", 0)) for record in records), default=0.0) / 1e6


def memory_bar(what: str, records: Sequence[Record]) -> list[Bar]:
    if not records:
        return []
    most = peak_mb(records)
    return [Bar(f"{what}: memory of the larger end", f"≤ {MEMORY_MB} MB", f"{most:.0f} MB", most <= MEMORY_MB,
                len(records))]


def idle_bars(records: Sequence[Record]) -> list[Bar]:
    bars = []
    ours = idle_runs(records, WHOLE.name, OURS.name)
    own = seconds_ratio(ours, idle_runs(records, WHOLE.name, RsyncLocal.name))
    if own is not None:
        bars.append(Bar(f"{WHOLE.title}, nothing to do: seconds ÷ those of {RsyncLocal.name}", f"≤ {SECONDS:g}", str(own),
                        own.median <= SECONDS, own.count))
    for shape in (WHOLE, WIDE):
        bars += memory_bar(f"{shape.title}, nothing to do", [*idle_runs(records, shape.name, OURS.name).values()])
    return bars


def first_bars(found: Found) -> list[Bar]:
    bars: list[Bar] = []
    for name, mover, other, least in ((FIRST, CLEAR, RSYNC, RSYNC_LEAST), (FIRST_FEW, TRUSTED, RCLONE, RCLONE_LEAST)):
        there = found.get(name, {})
        runs = there.get(mover.name, [])
        bars += at_least(f"{name}: `{mover.name}` ÷ {other.name}", ratio(runs, there.get(other.name, [])), least)
        bars += memory_bar(f"{name}: `{mover.name}`", [run.record for run in runs])
    return bars
