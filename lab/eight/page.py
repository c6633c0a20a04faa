"""docs/results/fleet-controllers.md: eight controllers on one link."""

from lab.eight.cases import ALONE, BUDGET, COUNT, DIVIDED, NAME, RULES, SETTLED_S, SHOWN, SWEEP, TOGETHER_S
from lab.eight.figures import AS_GOOD, Together, alone_bps, measured, needed, swept
from lab.grid.figures import Found, found_in
from lab.grid.remarks import failures, measured_on
from lab.grid.show import raw
from lab.ground.stats import shown, spread
from lab.pages.parts import ABSENT, Bar, mbit, measured_bars, measured_table
from lab.shard import Page, known

LEAST_TOTAL, LEAST_INDEX, MOST_STREAMS = 0.97, 0.95, 1.5
HEAD = f"""\
# Eight controllers on one link

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run {NAME}` measures it.

{COUNT} transfers from memory to memory begin together on one link ({SHOWN}) and are judged from second {SETTLED_S:.0f} to
second {TOGETHER_S - 1:.0f}, each with a rule of its own that sees the others as traffic. *{DIVIDED.name}*: the same rule, and a
service divides {BUDGET} streams among them as it does for the movers of a run with `--max-streams {BUDGET}`; each says every
five seconds how many it uses, and is told how many it may use. What one transfer has by itself is that of `auto` alone on the
same link; what the link needs is the least fixed number within {1 - AS_GOOD:.0%} of the best.

"""


def bars(found: Found) -> list[Bar]:
    made, alone, least = [], alone_bps(found), needed(found)
    for rule, there in measured(found).items():
        index = spread([each.index for each in there])
        made.append(Bar(f"`{rule}`: Jain's index", f"≥ {LEAST_INDEX:g}", shown(index, 3), index.median >= LEAST_INDEX, len(there)))
        if alone:
            total = spread([each.bps / alone for each in there])
            made.append(Bar(f"`{rule}`: all together ÷ one `auto` alone", f"≥ {LEAST_TOTAL:g}", shown(total),
                            total.median >= LEAST_TOTAL, len(there)))
        if least:
            streams = spread([each.streams / least for each in there])
            made.append(Bar(f"`{rule}`: streams in all ÷ what the link needs", f"≤ {MOST_STREAMS:g}", shown(streams),
                            streams.median <= MOST_STREAMS, len(there)))
    return made


def row(rule: str, there: list[Together]) -> list[str]:
    each = "; ".join(", ".join(mbit(bps) for bps in sorted(run.rates)) for run in there)
    return [f"`{rule}`", shown(spread([run.bps / 1e6 for run in there]), 0), shown(spread([run.index for run in there]), 3),
            shown(spread([run.streams for run in there]), 1), each, str(len(there))]


def sweep_line(found: Found) -> str:
    there = swept(found)
    if not there:
        return ABSENT
    told = ", ".join(f"{n}: {mbit(bps)}" for n, bps in there.items())
    return f"Mbit/s by the number of streams: {told}. The link needs {needed(found)}.\n\n"


def page() -> Page:
    records = known(NAME)
    found = found_in(records, NAME)
    alone = alone_bps(found)
    text = HEAD + measured_on(records) + "\n\n## What was to be reached\n\n" + measured_bars(bars(found))
    text += f"## {ALONE.title}\n\n" + (f"`auto` alone: {mbit(alone)} Mbit/s.\n\n" if alone else ABSENT)
    text += f"## {SWEEP.title}\n\n" + sweep_line(found)
    text += f"## {COUNT} transfers\n\n" + measured_table(
        ["rule", "Mbit/s together", "Jain's index", "streams in all", "Mbit/s of each", "n"],
        [row(rule, there) for rule, there in measured(found).items()])
    text += failures(records) + f"Every run is in [{NAME}.csv]({NAME}.csv).\n"
    return Page(NAME, text, {f"{NAME}.csv": raw(found)})
