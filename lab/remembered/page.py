"""docs/results/beyond-memory.md: the bars, then every way to begin on every link."""

import statistics
from collections.abc import Mapping, Sequence

from lab.eos.found import cells_of
from lab.grid.remarks import failures, measured_on
from lab.ground.results import Record
from lab.pages.parts import ABSENT, Bar, csv, mbit, measured_bars, table
from lab.remembered.cases import COPY_S, EVERY_S, FIXED, LINKS, NONE, RIGHT, SHARD, SHARE, WRONG
from lab.shard import Page, known

# Beyond the hand-shake, and beyond whoever has no memory.
SECONDS, EPOCHS = 1.0, 2.0
BEGINS = (NONE, RIGHT, *WRONG, FIXED)
HEADS = ("link", "memory", "begins with", f"s to {100 * SHARE:g} %", "s, each", f"epochs to {100 * SHARE:g} %",
         "Mbit/s, late half", "n")
Runs = Sequence[Mapping[str, Mapping[str, float]]]

HEAD = f"""# A path seen before

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run {SHARD}` measures it.

One file that takes {COPY_S:g} s at the link's rate is copied with no memory; then again by others who begin with what that
copy left behind, or with that made wrong by four times: in how many workers a stage had, or in how many it had and in
what they could do, as a link would leave it that was four times as wide, or a quarter as wide. Last comes a copy that has
all of the remembered numbers from the start and changes nothing: it shows what connecting and slow start take by themselves.
Seconds are counted from the first 256 KiB that arrive, which the hand-shake lies before, to the middle of the first
window of {4000 * EVERY_S:g} ms or two round trips, whatever is more, that has {100 * SHARE:g} % of the late half's rate, read at the receiver's
device every {1000 * EVERY_S:g} ms. Every copy is compared with its source, byte by byte.

"""


def value(runs: Runs, name: str, key: str) -> float:
    return statistics.median(run[name][key] for run in runs)


def page(records: Mapping[str, Sequence[Record]] | None = None) -> Page:
    """From what was measured so far."""
    there = known(SHARD) if records is None else records.get(SHARD, [])
    cells = cells_of(there)
    found = {link: [run.notes["runs"] for run in cells[link]["auto"]] for link in LINKS if link in cells}
    text = HEAD + measured_on(there) + "\n\n## What is to be reached\n\n" + measured_bars(bars(found))
    rows = [row(link, runs, name) for link, runs in found.items() for name in BEGINS]
    text += "## Every way to begin\n\n" + (table(HEADS, rows) if rows else ABSENT)
    beside = {f"{SHARD}.csv": csv(HEADS, rows)} if rows else {}
    if rows:
        text += f"Every row is in [{SHARD}.csv]({SHARD}.csv).\n\n"
    return Page(SHARD, (text + failures(there)).rstrip("\n") + "\n", beside)


def row(link: str, runs: Runs, name: str) -> list[str]:
    return [link, name, f"{value(runs, name, 'first'):.0f}", f"{value(runs, name, 'reached_s'):.2f}",
            ", ".join(f"{run[name]['reached_s']:.2f}" for run in runs), f"{value(runs, name, 'epochs'):g}",
            mbit(value(runs, name, "late_bps")), str(len(runs))]


def bars(found: Mapping[str, Runs]) -> list[Bar]:
    made = []
    for link, runs in found.items():
        right, alone = value(runs, RIGHT, "reached_s"), value(runs, FIXED, "reached_s")
        made.append(Bar(f"{link}: second copy, s to {100 * SHARE:g} % beyond the hand-shake", f"≤ {SECONDS:g}",
                        f"{right:.2f} ({alone:.2f} of {FIXED})", right <= SECONDS, len(runs)))
    for link, runs in found.items():
        none = value(runs, NONE, "epochs")
        worst = max(WRONG, key=lambda name: value(runs, name, "epochs"))
        more = value(runs, worst, "epochs") - none
        made.append(Bar(f"{link}: the worst wrong memory ({worst}), epochs more than with none", f"≤ {EPOCHS:g}",
                        f"{more:+g}", more <= EPOCHS, len(runs)))
    return made
