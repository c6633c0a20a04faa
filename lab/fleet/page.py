"""docs/results/fleet-slurm.md: movers together, then what happened to them."""

from lab.fleet.cases import CASES, NAME, PAYLOAD, SETTLED_S, Case
from lab.grid.remarks import failures, measured_on
from lab.ground.results import Record
from lab.ground.stats import shown, spread
from lab.pages.parts import Bar, csv, measured_bars, measured_table
from lab.shard import Page, known

PAGE = "fleet-slurm"
HEAD = """\
# Many hosts, one data set

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run fleet` measures it, `make lab-fleet` both.

A head and a node for each mover are network and UTS namespaces of one machine, each node with a link of its own (tbf), the
head with none. `tidegate spread` at the head has Slurm start a mover on each node, and Dask or ssh where that is said, over a service with PostgreSQL; files of
8 MB go from a file system that all share (tmpfs) to an endpoint at the head. Every run is compared byte by byte. *Ideal* is
the time if every link were full from the first moment to the last, without what is said besides. Slurm takes some seconds to
start movers, which count. One machine stands for all hosts: what is shown is that they share the work and survive, not how
fast so many machines would be.

"""


def full_share(record: Record, case: Case) -> float | None:
    """How full all links were together, from the tenth second to a second before the end. The head counts packets that were
    merged on their way, and so hardly any headers, of which the links are full as well."""
    settled = [(at, got) for at, got in record.notes["samples"] if SETTLED_S <= at <= record.seconds - 1]
    if len(settled) < 2:
        return None
    (began, before), (ended, after) = settled[0], settled[-1]
    return (after - before) * 8 / (ended - began) / (case.total_mbit * 1e6 * PAYLOAD)


def sent_again(record: Record) -> float:
    """What came over the links, as a part of what had to."""
    samples = record.notes["samples"]
    return (samples[-1][1] - samples[0][1]) / record.bytes if samples else 0.0


def runs(records: list[Record], case: Case) -> list[Record]:
    return [record for record in records if record.set == case.name and record.ok]


def together(records: list[Record]) -> tuple[str, list[Bar]]:
    rows, bars = [], []
    for case in (case for case in CASES if case.fault is None):
        if not (good := runs(records, case)):
            continue
        shares = [share for record in good if (share := full_share(record, case)) is not None]
        ratio = spread([record.seconds / record.notes["ideal_s"] for record in good])
        share = spread(shares) if shares else None
        rows.append([case.title, f"{case.ideal_s:.0f}", shown(spread([record.seconds for record in good]), 1), shown(ratio),
                     shown(share) if share else "", str(len(good))])
        if case.name == "one-slow":
            bars.append(Bar("one of four is slow: whole time ÷ ideal", "≤ 1.1", shown(ratio), ratio.median <= 1.1, ratio.count))
        elif share:
            bars.append(Bar(f"{case.title}: share of the links from the tenth second on", "≥ 0.95", shown(share),
                            share.median >= 0.95, share.count))
    heads = ["movers", "ideal, s", "s", "÷ ideal", "share of the links", "n"]
    return measured_table(heads, rows), bars


def survived(records: list[Record]) -> tuple[str, list[Bar]]:
    rows, bars = [], []
    for case in (case for case in CASES if case.fault is not None):
        tried = [record for record in records if record.set == case.name]
        if not tried:
            continue
        good = runs(records, case)
        rows.append([case.title, f"{len(good)} of {len(tried)}", f"{case.ideal_s:.0f}",
                     shown(spread([record.seconds for record in good]), 0) if good else "",
                     shown(spread([sent_again(record) for record in good])) if good else ""])
        bars.append(Bar(f"{case.title}: complete and exact", "all", f"{len(good)} of {len(tried)}", len(good) == len(tried),
                        len(tried)))
    return measured_table(["what happens", "complete and exact", "ideal, s", "s", "came ÷ had to"], rows), bars


def page() -> Page:
    records = known(NAME)
    (speeds, fast), (faults, safe) = together(records), survived(records)
    text = HEAD + measured_on(records) + "\n\n## What was to be reached\n\n" + measured_bars([*fast, *safe])
    text += "## Together\n\n" + speeds
    text += ("## Faults\n\nThree movers at 150 Mbit/s, at 50 where one is stopped; the fault comes within twelve seconds after all run. "
             "*Came ÷ had to* tells what was sent twice; it counts few headers, as packets are merged before they are counted.\n\n") + faults
    text += failures(records) + f"Every run is in [{PAGE}.csv]({PAGE}.csv).\n"
    lines = [[record.set, record.repeat, int(record.ok), record.bytes, round(record.seconds, 2), record.error]
             for record in records]
    return Page(PAGE, text, {f"{PAGE}.csv": csv(["case", "repeat", "ok", "bytes", "seconds", "error"], lines)})
