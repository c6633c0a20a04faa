"""A little of everything in two minutes: does the lab still measure? Its figures say nothing and are thrown away."""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lab.grid import run as grid
from lab.grid.case import Case
from lab.grid.engine import Engine, Rule, fixed
from lab.grid.figures import found_in
from lab.grid.policies import explored
from lab.grid.show import case_table
from lab.ground import cgroup, program
from lab.ground.results import Record, load
from lab.ground.shell import CommandFailed, exists, run
from lab.links import check, percon
from lab.links.scenario import read
from lab.movers import report, runner
from lab.pages import html
from lab.pages.parts import Bar, bars_table
from lab.rivals import contenders
from lab.runs.setting import OPEN
from lab.shard import Page

# As for shell tests: the reason is the last line.
SKIPPED = 77
LINK = "ten-streams"
CELL_S = 3.0
EXPLORED_S = 8
SET, SCALE, TIMEOUT_S = "C", 0.01, 30.0
RULES = (Rule("auto", "auto"), fixed(4))
NAMESPACE = f"tglab-{os.getpid()}-try"


def lacking() -> str | None:
    """Why it cannot run here, or None."""
    if os.geteuid() != 0:
        return "network namespaces and control groups need root"
    if reason := program.missing():
        return reason
    if absent := [program for program in ("ip", "tc", "ss", "iperf3", "ping") if not exists(program)]:
        return f"{', '.join(absent)} not installed; run: python3 -m lab install"
    if reason := percon.missing():
        return f"no cap per connection: {reason}"
    try:
        run(["ip", "netns", "add", NAMESPACE])
        run(["ip", "netns", "delete", NAMESPACE])
        cgroup.mount_point()
    except (CommandFailed, OSError) as failure:
        return f"this machine does not let root make namespaces or control groups: {failure}"
    try:
        html.markdown()
    except html.Missing as reason:
        return str(reason)
    return None


def link(scratch: Path) -> list[str]:
    """A link is built from a scenario and is what the scenario says."""
    return [] if check.main([LINK]) == 0 else [f"the link {LINK} is not what it says"]


def movers(scratch: Path) -> list[str]:
    """Every installed rival moves a tiny set once, byte for byte."""
    there = contenders(OPEN)
    for contender in there:
        contender.shorten()
    results = scratch / "movers.jsonl"
    runner.run_all(runner.Settings(OPEN, SET, 1, 1, results, scale=SCALE, timeout_s=TIMEOUT_S), there)
    records = load(results)
    failed = [f"{record.contender}: {record.error}" for record in records if not record.ok]
    page = report.write([replace(record, scale=1.0) for record in records])
    missing = [record.contender for record in records if record.ok and f"| {record.contender} |" not in page]
    return [*failed, *(f"{name} is not in the table of the page" for name in missing),
            *([] if any(record.ok and record.contender.startswith("tidegate") for record in records) else
              ["tidegate moved nothing"])]


def cells(scratch: Path) -> list[str]:
    """One case of a grid under two rules, what exploring its link finds, its page, and the report in HTML."""
    case = Case("smoke", "the lab's smoke test", read(check.found_files([LINK])[0]), CELL_S)
    results = scratch / "grid.jsonl"
    grid.run_all([grid.Cell(case, Engine(rule, case)) for rule in RULES], grid.Settings("smoke", 1, results))
    path = explored(case, Engine(RULES[0], case), EXPLORED_S)
    records = load(results)
    failed = [f"{record.contender}: {record.error}" for record in records if not record.ok]
    failed += [] if 0 < path.network.worker_bps <= case.scenario.link_bps else ["exploring found no stream's rate"]
    bar = Bar("rules that were measured", f"= {len(RULES)}", str(measured(records)), measured(records) == len(RULES), 1)
    found = found_in(records, "smoke")
    Page("smoke", f"# Smoke\n\n{bars_table([bar])}{case_table(found, case, 'auto')}", {}).write(scratch / "pages")
    html.write(scratch / "pages", scratch / "report.html", ["smoke"])
    page, made = (scratch / "pages" / "smoke.md").read_text(), (scratch / "report.html").read_text()
    if measured(records) == len(RULES):
        failed += [f"{rule.name} has no row in the page" for rule in RULES if f"{rule.name}" not in page]
        failed += [] if "1 of 1" in made and made.count("<table") >= 3 else ["the HTML report lacks the page's tables"]
    return failed


def measured(records: list[Record]) -> int:
    return len({record.contender for record in records if record.ok and record.rate_bps > 0})


PARTS: tuple[tuple[str, Callable[[Path], list[str]]], ...] = (("link", link), ("movers", movers), ("grid", cells))


def main() -> int:
    if reason := lacking():
        print(f"skipped: {reason}")
        return SKIPPED
    failed = []
    with tempfile.TemporaryDirectory(prefix="tidegate-smoke-") as held:
        for name, part in PARTS:
            print(f"== {name}: {part.__doc__}", flush=True)
            failed += [f"{name}: {what}" for what in part(Path(held))]
    for what in failed:
        print(f"FAILED {what}", file=sys.stderr)
    print(f"{len(failed)} failures" if failed else "the lab measures")
    return 1 if failed else 0
