"""docs/results/many.md: the bars, nothing to do, then first copies."""

from lab.grid.figures import Found, found_of, medians
from lab.grid.remarks import failures, measured_on
from lab.grid.show import raw
from lab.ground.results import Record
from lab.ground.stats import shown, spread
from lab.many.bars import first_bars, idle_bars, idle_runs, peak_mb, seconds_ratio
from lab.many.cases import FIRST, FIRST_FEW, IDLE, PAIRS, SHAPES, SHARDS, case
from lab.many.idle import MOVERS, OURS
from lab.pages.parts import measured_bars, measured_table
from lab.shard import Page, known

PAGE = "many"
HEAD = """\
# A million files

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run many` measures it.

Nothing to do: source and destination on tmpfs of one host, and all movers compare the same two trees, which none may change.
`tidegate (a)` is its program and an endpoint on the loopback, which has verified everything before; the others go from
directory to directory. First copies: two network namespaces joined by a relay that delays, files on tmpfs, a fresh
destination, every copy compared byte by byte. Memory is the most that one process held. rclone, which would take hours
for a million, has 30,000 files and 16 transfers at a time.

"""


def idle_table(records: list[Record], shape: str) -> str:
    rows = []
    ours = idle_runs(records, shape, OURS.name)
    for mover in MOVERS:
        if not (runs := idle_runs(records, shape, mover.name)):
            continue
        beside = "" if mover is OURS else str(seconds_ratio(ours, runs) or "")
        rows.append([mover.name, shown(spread([run.seconds for run in runs.values()])),
                     shown(spread([run.cpu_seconds for run in runs.values()])), f"{peak_mb(runs.values()):.0f}", beside,
                     str(len(runs))])
    return measured_table(["mover", "s", "CPU s", "MB", f"seconds of {OURS.name} ÷ this", "n"], rows)


def first_table(found: Found, name: str) -> str:
    rows = []
    for mover in PAIRS[name]:
        if runs := found.get(name, {}).get(mover.name, []):
            files = spread([run.record.files / run.record.seconds for run in runs])
            rows.append([mover.name, shown(files, 0), f"{medians(runs, lambda run: run.record.seconds):.0f}",
                         f"{peak_mb(run.record for run in runs):.0f}", str(len(runs))])
    return measured_table(["mover", "files/s", "s", "MB", "n"], rows)


def page() -> Page:
    by_shard = {shard.name: known(shard.name) for shard in SHARDS}
    found = found_of({name: records for name, records in by_shard.items() if name != IDLE})
    every = [record for records in by_shard.values() for record in records]
    text = HEAD + measured_on(every) + "\n\n## What was to be reached\n\n"
    text += measured_bars([*idle_bars(by_shard[IDLE]), *first_bars(found)])
    for shape in SHAPES:
        text += f"## Nothing to do: {shape.title}\n\n" + idle_table(by_shard[IDLE], shape.name)
    for name in (FIRST, FIRST_FEW):
        text += f"## First copy: {case(name).title}\n\n" + first_table(found, name)
    text += failures(every) + f"Every first copy is in [{PAGE}.csv]({PAGE}.csv).\n"
    return Page(PAGE, text, {f"{PAGE}.csv": raw(found)})
