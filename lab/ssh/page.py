"""docs/results/ssh.md: the bars, the first byte, then every link and set with its table."""

from lab.grid.figures import Found, Run, found_of, medians
from lab.grid.remarks import failures, measured_on
from lab.grid.show import case_table, over_time, raw
from lab.ground.results import Record
from lab.ground.stats import shown, spread
from lab.pages.parts import measured_bars, measured_table
from lab.rivals.push import pushers
from lab.runs.datasets import NAMES
from lab.shard import Page, known
from lab.ssh.bars import far_bars, first_bars, link_used, processors_used, rival_bars
from lab.ssh.cases import LINKS, MOST_S, OURS, RSYNC, SHARDS, case

PAGE = "ssh"
# The sets that are drawn: large files and small ones.
DRAWN = ("A", "C")
HEAD = f"""\
# Over ssh, to a host where nothing else runs

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run ssh` measures it.

Every mover pushes to a real sshd in the receiver's namespace, with a key, the quickest cipher here and no compression.
`tidegate` has no tuning flag: ssh starts it at the other end, and its data goes over its own TLS streams to a port there.
`rclone sftp` is told to move 16 files at once where the link is far. Time counts from the start of the program, the login
included. A run of more than {MOST_S:.0f} s is ended there and counts by what has arrived. Every copy is compared with its
source, byte by byte. mscp is in no registry here (what PyPI calls so is something else), nor is bbcp.

"""


def rivals_of(there: dict[str, list[Run]]) -> list[str]:
    """Those that are not ours, the fastest first."""
    return sorted((name for name in there if name != OURS), key=lambda name: -medians(there[name]))


def first_table(found: Found) -> str:
    rows = []
    for on in (case(link, "first") for link in LINKS):
        for name in (OURS, RSYNC):
            runs = found.get(on.name, {}).get(name, [])
            seen = [run.record.notes["first_byte_s"] for run in runs if run.record.notes.get("first_byte_s")]
            if seen:
                whole = [run.record.seconds for run in runs]
                rows.append([on.name, name, shown(spread(seen)), shown(spread(whole)), str(len(runs))])
    return measured_table(["link", "mover", "s to the first byte", "s in all", "n"], rows)


def used_table(found: Found, on_link: str) -> str:
    """What each leaves of the link and of the processors."""
    rows = []
    for on in (case(on_link, what) for what in NAMES):
        there = found.get(on.name, {})
        rows += [[on.name, name, f"{link_used(on, there[name]):.0%}", f"{processors_used(there[name]):.0%}"]
                 for name in (mover.name for mover in pushers()) if name in there]
    return measured_table(["set", "mover", "link used", "processors used"], rows)


def page() -> Page:
    by_shard: dict[str, list[Record]] = {shard.name: known(shard.name) for shard in SHARDS}
    found = found_of(by_shard)
    every = [record for records in by_shard.values() for record in records]
    beside = {}
    text = HEAD + measured_on(every) + "\n\n## What was to be reached\n\n"
    text += measured_bars([*first_bars(found), *rival_bars(found), *far_bars(found)])
    text += "## The first byte\n\n" + first_table(found)
    for link in LINKS:
        text += f"## {link}\n\n"
        for on, what in ((case(link, what), what) for what in NAMES):
            text += f"### {on.title}\n\n" + case_table(found, on, OURS)
            svg = over_time(found, on, (OURS, *rivals_of(found.get(on.name, {}))[:2])) if what in DRAWN else None
            if svg:
                beside[f"{on.name}.svg"] = svg
                text += f"![goodput and connections over time]({on.name}.svg)\n\n"
        text += used_table(found, link)
    beside[f"{PAGE}.csv"] = raw(found)
    text += failures(every) + f"Every run is in [{PAGE}.csv]({PAGE}.csv).\n"
    return Page(PAGE, text, beside)
