"""docs/results/far.md: the bars, then every link with its table and picture."""

from lab.far.bars import huge_bars, small_bars
from lab.far.cases import AUTO, FAR, HUGE, NEAR, SHARDS, case
from lab.grid.figures import found_of
from lab.grid.remarks import failures, measured_on
from lab.grid.show import case_table, over_time, raw
from lab.pages.parts import bars_table
from lab.shard import Page, known

PAGE = "far"
HEAD = """\
# Far away: one huge file, and many small ones

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run far` measures it.

Two network namespaces joined by a relay that delays and has a queue of 20 ms, TCP cubic, MTU 1500, files on tmpfs into
fresh directories. `auto` has no tuning flag: BLAKE3 over a clear stream, and `auto, TLS` as it comes. Others are told by
hand how many connections to use; the best number differs from link to link. Time counts from the start of the program,
hand-shakes and the comparison of lists included.

"""


def page() -> Page:
    by_shard = {shard.name: known(shard.name) for shard in SHARDS}
    found = found_of(by_shard)
    every = [record for records in by_shard.values() for record in records]
    beside = {}
    text = HEAD + measured_on(every) + "\n\n## What was to be reached\n\n"
    text += bars_table([*huge_bars(found), *small_bars(found)])
    for name in (HUGE, NEAR, FAR):
        text += f"## {name}\n\n{case(name).title}.\n\n" + case_table(found, case(name), AUTO.name)
        there = found.get(name, {})
        rivals = sorted((mover for mover in there if not mover.startswith(AUTO.name)),
                        key=lambda mover: -sum(run.bps for run in there[mover]) / len(there[mover]))
        if svg := over_time(found, case(name), (AUTO.name, *rivals[:2])):
            beside[f"{PAGE}-{name}.svg"] = svg
            text += f"![goodput and connections over time]({PAGE}-{name}.svg)\n\n"
    beside[f"{PAGE}.csv"] = raw(found)
    text += failures(every) + f"Every run is in [{PAGE}.csv]({PAGE}.csv).\n"
    return Page(PAGE, text, beside)
