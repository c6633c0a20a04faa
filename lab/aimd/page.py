"""docs/results/aimd.md: the paper's figure 1 beside ours."""

import statistics
from collections.abc import Sequence

from lab.aimd import pictures
from lab.aimd.bars import claims, reached, reference, shares
from lab.aimd.cases import CONTROL_S, EXTERNAL, LATE_S, STREAMS, SWEEP_S, name
from lab.aimd.figures import (ENOUGH, GLOBUS, Level, by_number, epochs_to_rate, epochs_to_streams, late,
                              late_streams, rate, usual, whole)
from lab.aimd.shards import CONTROLS, GLOBUS_EXTERNAL, GLOBUS_STREAMS, RULES, SWEEP
from lab.aimd.text import HEAD, NOT_SHOWN, differences
from lab.grid.figures import FIXED, Found, found_in, found_of
from lab.grid.remarks import failures, measured_on
from lab.ground.results import Record
from lab.pages.parts import ABSENT, csv, mbit, measured_bars, table
from lab.shard import Page, known


def sweep_table(levels: Sequence[Level]) -> str:
    """Streams down, external streams across; the best of each column bold."""
    rows = [[str(n), *(cell(level, n) for level in levels)] for n in STREAMS]
    rows.append([f"least with {ENOUGH * 100:g} % of the best", *(str(level.enough) for level in levels)])
    return table(["streams", *(f"{level.external} external" for level in levels)], rows)


def cell(level: Level, n: int) -> str:
    if n not in level.runs:
        return ""
    return f"**{mbit(level.bps(n))}**" if n == level.best else mbit(level.bps(n))


def share_table(levels: Sequence[Level]) -> str:
    """What n streams got, as a share of what n among all streams would get if each got the same."""
    def part(level: Level, n: int) -> str:
        equal = n / (n + level.external)
        alone = max(other.top_bps for other in levels if other.external == min(o.external for o in levels))
        return f"{level.bps(n) / (alone * equal):.2f}" if n in level.runs else ""

    return table(["streams", *(f"{level.external} external" for level in levels)],
                 [[str(n), *(part(level, n) for level in levels)] for n in STREAMS])


def globus_table(ours: Sequence[Level], theirs: Sequence[Level]) -> str:
    own = {level.external: level for level in ours}
    rows = []
    for level in theirs:
        for n in level.runs:
            beside = own[level.external].bps(n) if level.external in own and n in own[level.external].runs else None
            rows.append([str(level.external), str(n), mbit(level.bps(n)), "" if beside is None else mbit(beside),
                         "" if beside is None else f"{beside / level.bps(n):.2f}", str(len(level.runs[n]))])
    return table(["external", "streams", "globus-url-copy -p", "tidegate", "tidegate ÷ it", "n"], rows)


def control_table(levels: Sequence[Level], found: Found) -> str:
    own = {level.external: level for level in levels}
    rows = []
    for external in EXTERNAL:
        there = found.get(name(external), {})
        for rule in [rule.name for rule in RULES] + sorted(mover for mover in there if mover.startswith(FIXED)):
            if rule not in there:
                continue
            runs, level = there[rule], own.get(external)
            to_n = "" if level is None else counted([epochs_to_streams(run, level.enough) for run in runs])
            wanted = None if level is None else ENOUGH * reference(level, there)[1]
            to_rate = "" if wanted is None else counted([epochs_to_rate(run, wanted) for run in runs])
            reached_ = [] if level is None else shares(level, found, rule)
            share = f"{statistics.median(reached_):.2f}" if reached_ else ""
            rows.append([str(external), f"`{rule}`", mbit(statistics.median(map(whole, runs))),
                         mbit(statistics.median(map(late, runs))), share,
                         f"{statistics.median(map(late_streams, runs)):g}",
                         "" if level is None else str(level.enough), to_n, to_rate, str(len(runs))])
    return table(["external", "rule", "Mbit/s", f"in the last {LATE_S:g} s", "÷ best fixed", "streams then", "K",
                  "epochs to K streams", f"epochs to {ENOUGH * 100:g} % of the best", "n"], rows)


def counted(values: Sequence[int | None]) -> str:
    middle = usual(values)
    return "never" if middle is None else str(middle)


def every_run(*shards: Found) -> str:
    """One line a run; the rate is that from when the transfer joined."""
    heads = ("part", "external", "mover", "repeat", "mbit_s", "streams", "cpu_s_per_gb", "other_cpus", "version")
    rows = [(part, level.rpartition(" ")[2], mover, run.record.repeat + 1, f"{value(run) / 1e6:.1f}",
             f"{run.streams:.2f}", f"{run.record.cpu_s_per_gb:.3f}", run.record.notes["noise"]["other_cpus"],
             run.record.version)
            for part, found, value in zip(("sweep", "controllers"), shards, (rate, whole))
            for level, there in found.items() for mover, runs in there.items() for run in runs]
    return csv(heads, rows)


def page(swept: Sequence[Record] | None = None, controlled: Sequence[Record] | None = None) -> Page:
    """From what was measured so far."""
    records = known(SWEEP) if swept is None else swept
    runs = [record for shard in CONTROLS for record in known(shard)] if controlled is None else controlled
    found = found_in(records, SWEEP)
    found_runs = found_of(dict.fromkeys(CONTROLS, runs))
    levels, theirs = by_number(found, FIXED), by_number(found, GLOBUS)
    beside: dict[str, str] = {}
    text = HEAD + measured_on([*records, *runs]) + "\n\n## What the paper says, and what is here\n\n"
    bars = [*claims(levels), *reached(levels, found_runs)]
    text += measured_bars(bars)
    text += (f"## Figure 1 left: throughput by streams\n\nMbit/s in {SWEEP_S:g} s, slow start and all, medians; the "
             f"best of each column is bold. `python3 -m lab run {SWEEP}` measures it.\n\n")
    if levels:
        beside["aimd-streams.svg"] = pictures.curves(levels)
        text += f"![throughput by streams](aimd-streams.svg)\n\n{sweep_table(levels)}"
        text += ("The same as a share of an equal share: 1 is what n of all streams would get if each stream got the "
                 f"same of the best rate without others.\n\n{share_table(levels)}")
    else:
        text += ABSENT
    if theirs:
        text += ("With the paper's own tool, `globus-url-copy` from /dev/zero to /dev/null, in the same rotation:\n\n"
                 + globus_table(levels, theirs))
    else:
        numbers, beside_those = (", ".join(map(str, those)) for those in (GLOBUS_STREAMS, GLOBUS_EXTERNAL))
        text += (f"The paper's own tool, `globus-url-copy -p` with {numbers} streams beside {beside_those} external "
                 "ones: not measured yet.\n\n")
    words = " ".join(CONTROLS)
    text += (f"## Figure 1 centre and right: controllers\n\n{CONTROL_S:g} s each. K is the least number of streams "
             f"with {ENOUGH * 100:g} % of the sweep's best; the paper's controller needs K epochs. The best fixed "
             f"number runs in the same rotation. `python3 -m lab run {words}` measures it.\n\n")
    without = [str(external) for external in EXTERNAL if name(external) not in found_runs]
    if found_runs:
        there = [str(external) for external in EXTERNAL if name(external) in found_runs]
        text += f"Controllers were run beside {', '.join(there)} external streams"
        text += f"; not yet beside {', '.join(without)}.\n\n" if without else ": all levels of the figure.\n\n"
    text += control_table(levels, found_runs) if found_runs else ABSENT
    for external in EXTERNAL:
        level = next((level for level in levels if level.external == external), None)
        if picture := pictures.controllers(found_runs, external, level):
            beside[f"aimd-external-{external}.svg"] = picture
            text += f"![controllers beside {external} external streams](aimd-external-{external}.svg)\n\n"
    text += differences(levels, theirs, found_runs) + NOT_SHOWN + failures([*records, *runs])
    if found or found_runs:
        beside["aimd.csv"] = every_run(found, found_runs)
        text += "Every run is in [aimd.csv](aimd.csv).\n"
    return Page("aimd", text.rstrip() + "\n", beside)
