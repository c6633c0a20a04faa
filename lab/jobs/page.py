"""docs/results/jobs.md: the bars, then each part."""

from collections.abc import Mapping, Sequence

from lab.eos.site import SLOW
from lab.grid.figures import Found, found_in, ratio
from lab.grid.remarks import failures, measured_on, others_used
from lab.grid.show import case_table
from lab.ground.results import Record, by_cell
from lab.ground.stats import Ratio, paired, shown, spread
from lab.jobs.cases import (AS_IT_IS, AUTO, BY_HAND, BY_JOB, COPIES, COPY, EIGHTH, GRIDFTP, LDM, LITTLES, ONE, POLICY,
                            READER, SHARDS, case)
from lab.pages.parts import ABSENT, Bar, at_least, csv, measured_bars, measured_table
from lab.shard import Page, known

PAGE = "jobs"
MOST = {COPY: 1.1, GRIDFTP: 0.4}
PAIRS = {COPY: (BY_JOB, BY_HAND), GRIDFTP: (AS_IT_IS, ONE)}
LEAST = 0.98
HEAD = """\
# Jobs beside the same by hand, and a policy beside the default

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run jobs` measures it.

Two network namespaces, a token bucket for the link and a pacing rate for each connection, files on tmpfs, every copy compared
byte by byte. Ways take turns. Nobody remembers the path: a copy has `--no-memory`, a job a service with a new state.
Time is that of the command, `tidegate copy` or `tidegate submit --wait`.

"""
NOT_SHOWN = """\
- Queues that others wait in: each job is alone.
- Paths that are far away, and more than one file.
- Other policies and other paths than the one it was trained for; [ldm.md](ldm.md) and [learning.md](learning.md) have those.

"""


def seconds_of(records: Sequence[Record], name: str) -> Mapping[int, float]:
    found: dict[int, float] = {}
    for there in by_cell(record for record in records if record.ok).values():
        found |= {record.repeat: record.seconds for record in there.get(name, [])}
    return found


def times(records: Sequence[Record], shard: str) -> Ratio | None:
    """How many times as long the first of the pair took, run by run."""
    one, other = (seconds_of(records, name) for name in PAIRS[shard])
    both = sorted(one.keys() & other.keys())
    return paired([one[repeat] for repeat in both], [other[repeat] for repeat in both])


def bars(by_shard: Mapping[str, Sequence[Record]], found: Found) -> list[Bar]:
    said = {COPY: f"60 MiB, {EIGHTH}: `submit` ÷ `copy`, seconds",
            GRIDFTP: f"15 MB by GridFTP, {SLOW}: a job as it is ÷ one stream, seconds"}
    rows = []
    for shard, what in said.items():
        if measured := times(by_shard[shard], shard):
            rows.append(Bar(what, f"≤ {MOST[shard]:g}", str(measured), measured.median <= MOST[shard], measured.count))
    there = found.get(READER, {})
    return rows + at_least(f"{READER}: `ldm`, trained for the path, ÷ `auto`",
                           ratio(there.get(LDM.name, []), there.get(AUTO.name, [])), LEAST)


def seconds_table(records: Sequence[Record], shard: str) -> str:
    rows = []
    for name in reversed(PAIRS[shard]):
        if seconds := [*seconds_of(records, name).values()]:
            rows.append([name, shown(spread(seconds)), str(len(seconds))])
    return measured_table(["way", "s", "n"], rows)


def raw(records: Sequence[Record]) -> str:
    heads = ("shard", "row", "way", "repeat", "seconds", "mbit_s", "verified", "other_cpus", "version")
    rows = [(r.scenario, r.set, r.contender, r.repeat + 1, f"{r.seconds:.2f}", f"{r.rate_bps / 1e6:.1f}", r.verified,
             r.notes.get("noise", {}).get("other_cpus", ""), r.version) for r in records if r.ok]
    return csv(heads, rows)


def page() -> Page:
    by_shard = {shard.name: known(shard.name) for shard in SHARDS}
    every = [record for records in by_shard.values() for record in records]
    found = found_in(by_shard[POLICY], POLICY)
    driven = case_table(found, case(), AUTO.name) if found else ABSENT
    text = (HEAD + measured_on(every) + others_used(every) + "\n\n## What was to be reached\n\n" + measured_bars(bars(by_shard, found))
            + f"## A copy of 60 MiB: {COPIES.tasks[0].set}, {EIGHTH}\n\n" + seconds_table(by_shard[COPY], COPY)
            + f"## GridFTP: {LITTLES.tasks[0].set}, {SLOW}\n\n" + seconds_table(by_shard[GRIDFTP], GRIDFTP)
            + f"## {case().title}\n\nThe policy is trained for this path by `tidegate train --recipe ldm`.\n\n" + driven
            + "## What this does not show\n\n" + NOT_SHOWN + failures(every)
            + f"Every run is in [{PAGE}.csv]({PAGE}.csv).\n")
    return Page(PAGE, text, {f"{PAGE}.csv": raw(every)})
