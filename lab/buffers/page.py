"""docs/results/buffers.md."""

import statistics
from collections.abc import Sequence

from lab.buffers.cases import LINK_MBIT, RTT_MS, RULES, SHARD, SMALL, SMALL_KIB, USUAL
from lab.grid.remarks import failures, measured_on, others_used
from lab.ground.results import Record, by_cell
from lab.pages.parts import Bar, csv, mbit, measured_bars, measured_table
from lab.shard import Page, known

PAGE = "buffers"
LEAST = 0.9
HEAD = f"""\
# Small buffers far away

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run buffers` measures it.

Two network namespaces joined by a relay: {LINK_MBIT} Mbit/s, a round trip of {RTT_MS} ms, TCP cubic. `tidegate probe` moves from
memory to memory for 15 s; what counts is the second half. Where buffers are small, the kernel of both ends comes to
{SMALL_KIB} KiB of each by itself (`tcp_rmem`, `tcp_wmem`), which is a window of {SMALL_KIB * 1024 * 8 / (RTT_MS / 1000) / 1e6:.0f} Mbit/s at most. A program may ask for more, as far as
`wmem_max` and `rmem_max` of the machine go. The link holds {LINK_MBIT * RTT_MS / 8000:.1f} MB.

"""
# Of a program that cannot be had from this tree any more.
BEFORE = """Commit 7d0e023a left buffers alone. Measured once in the same way, on 29 November 2026, it had 3 Mbit/s by one stream, 13
by four, and 102 by `auto`, which took 32."""
NOT_SHOWN = """\
- Hosts that let no program ask for more: there streams stay as they are, and `auto` takes more of them.
- A send buffer that is small at one end alone, and a receive buffer alone.

"""


def rates(records: Sequence[Record], row: str, column: str) -> list[float]:
    there = by_cell(record for record in records if record.ok)
    return [record.notes["late_bps"] for record in there.get(row, {}).get(column, [])]


def bars(records: Sequence[Record]) -> list[Bar]:
    found = []
    for column in RULES:
        small, usual = (rates(records, row, column) for row in (SMALL, USUAL))
        if small and usual:
            share = statistics.median(small) / statistics.median(usual)
            found.append(Bar(f"{column}: small buffers ÷ usual ones", f"≥ {LEAST:g}", f"{share:.2f}", share >= LEAST, len(small)))
    return found


def page() -> Page:
    records = known(SHARD)
    good = [record for record in records if record.ok]
    rows = []
    for row in (SMALL, USUAL):
        for column in RULES:
            if found := rates(records, row, column):
                rows.append([row, column, mbit(statistics.median(found)), f"{mbit(min(found))}–{mbit(max(found))}",
                             str(len(found))])
    asked = {(record.notes["wmem_max"], record.notes["rmem_max"]) for record in good}
    may = "".join(f"`wmem_max` was {sent >> 10} KiB and `rmem_max` {received >> 10}. " for sent, received in sorted(asked))
    text = (HEAD + measured_on(records) + others_used(records) + f"\n\n{may}{BEFORE}\n\n## What was to be reached\n\n" + measured_bars(bars(records))
            + "## Each\n\n" + measured_table(["buffers by the kernel itself", "rule", "Mbit/s", "min–max", "n"], rows)
            + "## What this does not show\n\n" + NOT_SHOWN + failures(records)
            + f"Every run is in [{PAGE}.csv]({PAGE}.csv).\n")
    heads = ("buffers", "rule", "repeat", "late_mbit_s", "streams", "mbit_s", "other_cpus", "version")
    lines = [(r.set, r.contender, r.repeat + 1, f"{r.notes['late_bps'] / 1e6:.1f}", r.notes["streams"],
              f"{r.rate_bps / 1e6:.1f}", r.notes["noise"]["other_cpus"], r.version) for r in good]
    return Page(PAGE, text, {f"{PAGE}.csv": csv(heads, lines)})
