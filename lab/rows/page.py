"""docs/results/beyond-rows.md: the bars, then every row with its table and picture."""

from collections.abc import Mapping, Sequence

from lab.grid.figures import Found, Run, found_in, medians
from lab.grid.remarks import failures, measured_on
from lab.grid.show import over_time, raw
from lab.grid.stretch import goodput, stages
from lab.ground.results import Record
from lab.ground.stats import shown, spread
from lab.pages.parts import image, measured_bars, measured_table
from lab.rows.bars import AS_GOOD, bars, best_fixed, moved
from lab.rows.cases import OWN, ROWS, SHARD, Row
from lab.shard import Page, known

HEAD = f"""# Seven rows

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run {SHARD}` measures it.

Links on which the best fixed numbers of workers are known; they run beside `{OWN.name}` in the same rotation. The best
is the one of fewest workers within {100 * (1 - AS_GOOD):.2g} % of the fastest. Two network namespaces joined by a relay that
delays and has a queue of 20 ms, TCP cubic, MTU 1500. What arrives at the receiver's device counts, headers and the
traffic of others left out; of files, what our own log says was written. Goodput and workers are means over the whole
run, its start included; the connections of the plots are those that are open, one for control and those of parked
workers among them.

"""


def page(records: Mapping[str, Sequence[Record]] | None = None) -> Page:
    """From what was measured so far."""
    there = known(SHARD) if records is None else records.get(SHARD, [])
    found = found_in(there, SHARD)
    run = sum(OWN.name in found.get(row.case.name, {}) for row in ROWS)
    text = HEAD + measured_on(there) + f"\n\n{run} of {len(ROWS)} rows run.\n\n## What `{OWN.name}` is to reach\n\n"
    text += measured_bars(bars(found))
    beside: dict[str, str] = {}
    for row in ROWS:
        name = f"{SHARD}-{row.case.name}.svg"
        if svg := over_time(found, row.case, drawn(row, found)):
            beside[name] = svg
        text += f"## {row.case.name}\n\n{row.case.title}.\n\n" + row_table(row, found)
        text += image(beside, name, "goodput and connections over time")
    if found:
        beside[f"{SHARD}.csv"] = raw(found)
        text += f"Every run is in [{SHARD}.csv]({SHARD}.csv); of files its rate is that at which they arrived.\n\n"
    return Page(SHARD, (text + failures(there)).rstrip("\n") + "\n", beside)


def drawn(row: Row, found: Found) -> list[str]:
    """The default rule, the best fixed number and the fastest of the other rules."""
    there = found.get(row.case.name, {})
    rivals = [rule.name for rule in row.rivals if rule.name in there]
    fastest = max(rivals, key=lambda name: medians(there[name], lambda run: moved(row, run)), default=None)
    return [name for name in (OWN.name, best_fixed(row, there), fastest) if name is not None]


def row_table(row: Row, found: Found) -> str:
    """All movers, fastest first."""
    there, end = found.get(row.case.name, {}), row.case.seconds

    def rate(runs: Sequence[Run], begin_s: float) -> str:
        return shown(spread([goodput(run, begin_s, end) / 1e6 for run in runs]), 1)

    def used(runs: Sequence[Run], begin_s: float) -> str:
        each = zip(*(stages(run, begin_s, end) for run in runs))
        return "/".join(f"{spread(stage).median:.1f}" for stage in each)

    order = sorted(there, key=lambda name: -medians(there[name], lambda run: moved(row, run)))
    rows = [[f"**{name}**" if name == OWN.name else name, rate(runs, 0.0), rate(runs, end / 2), used(runs, 0.0),
             used(runs, end / 2), str(len(runs))] for name, runs in ((name, there[name]) for name in order)]
    return measured_table(["mover", "Mbit/s, whole run", "late half", "workers, whole run", "late half", "n"], rows)
