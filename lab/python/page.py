"""docs/results/python.md: the bars, copies, ranges, one large file."""

from lab.grid.case import CONTENT
from lab.grid.figures import Found, found_of, medians, ratio
from lab.grid.remarks import failures, measured_on
from lab.grid.show import raw
from lab.ground.results import Record
from lab.ground.stats import Ratio, paired, shown, spread
from lab.pages.parts import Bar, at_least, mbit, measured_bars, measured_table
from lab.python import ranges
from lab.python.cases import COPIED, COPY, PROGRAM, RANGES_SHARD, SHARDS, WHOLE_CASE, copied, far, whole
from lab.python.readers import OURS, RANGES, WHOLE
from lab.shard import Page, known

PAGE = "python"
# Of the program's rate; of the best library's, or of the link's.
COPY_LEAST, TIMES_LEAST, LINK_LEAST = 0.97, 2.0, 0.95
HEAD = """\
# Python

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run python` measures it.

The package from its wheel, in an interpreter of its own for each run; what that takes to start and to import libraries
does not count, but for the large file: who has not read it after a minute counts by what has arrived. `tidegate.copy` and the program push to one endpoint. As file systems, `tidegate (fsspec)` reads from an
endpoint over TLS, the others from nginx over plain HTTP (s3fs as an anonymous user of a bucket that nginx serves): each
at its defaults, and for the large file also told by hand to read it in parts. What was read is compared with the source.

"""


def good(records: list[Record]) -> dict[str, dict[int, Record]]:
    """The good runs by reader and repeat; the last counts."""
    found: dict[str, dict[int, Record]] = {}
    for record in records:
        if record.ok:
            found.setdefault(record.contender, {})[record.repeat] = record
    return found


def rates(ours: dict[int, Record], theirs: dict[int, Record]) -> Ratio | None:
    both = sorted(ours.keys() & theirs.keys())
    return paired([ours[i].rate_bps for i in both], [theirs[i].rate_bps for i in both])


def median_rate(runs: dict[int, Record]) -> float:
    return spread([run.rate_bps for run in runs.values()]).median


def best_of(found: dict[str, dict[int, Record]]) -> str | None:
    return max((name for name in found if name != OURS.name), key=lambda name: median_rate(found[name]), default=None)


def enough(what: str, beside: Ratio | None, rate_bps: float, link_bps: float | None) -> list[Bar]:
    """So many times the best, or the link."""
    if beside is None:
        return []
    share = rate_bps / link_bps if link_bps else 0.0
    return [Bar(what, f"≥ {TIMES_LEAST:g}, or {LINK_LEAST:g} of the link", f"{beside}; {share:.2f} of the link",
                beside.median >= TIMES_LEAST or share >= LINK_LEAST, beside.count)]


def bars(found: Found, read: dict[str, dict[int, Record]]) -> list[Bar]:
    made: list[Bar] = []
    for on in map(copied, COPIED):
        there = found.get(on.name, {})
        made += at_least(f"{on.name}: `{COPY.name}` ÷ the program",
                         ratio(there.get(COPY.name, []), there.get(PROGRAM.name, [])), COPY_LEAST)
    first = best_of(read)
    if first is not None and OURS.name in read:
        made += enough(f"{ranges.COUNT:,} ranges at 20 ms: `{OURS.name}` ÷ the best other, {first}",
                       rates(read[OURS.name], read[first]), median_rate(read[OURS.name]), (far().link_bps or 0.0) * CONTENT)
    there = found.get(WHOLE_CASE, {})
    others = [name for name in there if name != OURS.name]
    if OURS.name in there and others:
        first = max(others, key=lambda name: medians(there[name]))
        made += enough(f"one file of 2 GB at 50 ms: `{OURS.name}` ÷ the best other, {first}",
                       ratio(there[OURS.name], there[first]), medians(there[OURS.name]), whole().goodput_bps)
    return made


def grid_table(found: Found, name: str, who: list[str]) -> str:
    rows = []
    for each in who:
        if runs := found.get(name, {}).get(each, []):
            cpu = spread([run.record.cpu_seconds for run in runs])
            rows.append([each, mbit(medians(runs)), shown(spread([run.record.seconds for run in runs])), shown(cpu),
                         str(len(runs))])
    return measured_table(["who", "Mbit/s", "s, with the interpreter's start", "CPU s", "n"], rows)


def ranges_table(read: dict[str, dict[int, Record]]) -> str:
    rows = []
    for name in (reader.name for reader in RANGES if reader.name in read):
        runs = list(read[name].values())
        rows.append([name, shown(spread([run.seconds for run in runs])),
                     f"{spread([run.files / run.seconds for run in runs]).median:,.0f}",
                     shown(spread([run.cpu_seconds for run in runs])), str(len(runs))])
    return measured_table(["who", "s", "ranges/s", "CPU s", "n"], rows)


def page() -> Page:
    by_shard = {shard.name: known(shard.name) for shard in SHARDS}
    found = found_of({name: records for name, records in by_shard.items() if name != RANGES_SHARD})
    read = good(by_shard[RANGES_SHARD])
    every = [record for records in by_shard.values() for record in records]
    text = HEAD + measured_on(every) + "\n\n## What was to be reached\n\n" + measured_bars(bars(found, read))
    for on in map(copied, COPIED):
        text += f"## Copies: {on.title}\n\n" + grid_table(found, on.name, [PROGRAM.name, COPY.name])
    text += (f"## {ranges.COUNT:,} ranges of {ranges.LENGTH >> 10} KiB, {ranges.STEP:,} bytes apart and in a drawn order, "
             f"by one `cat_ranges`: {far().description}\n\n" + ranges_table(read))
    text += f"## {whole().title}, by one `cat_file`\n\n" + grid_table(found, WHOLE_CASE, [each.name for each in WHOLE])
    text += failures(every) + f"Every run of copies and of the large file is in [{PAGE}.csv]({PAGE}.csv).\n"
    return Page(PAGE, text, {f"{PAGE}.csv": raw(found)})
