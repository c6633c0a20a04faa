"""The lab's command: python3 -m lab list | run | report | check | install | smoke."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from lab import catalogue, install, smoke
from lab.ground import places
from lab.links import check
from lab.links.tables import ScenarioError
from lab.pages import html
from lab.rivals.tidegate import Tidegate
from lab.shard import NotHere, Options, Shard


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m lab", description="Measures Tidegate beside its rivals.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what can be measured, how long it takes and how much of it is known")
    run = commands.add_parser("run", help="measure; goes on where an earlier run stopped")
    run.add_argument("names", nargs="+", metavar="NAME", help="shards, pages (for all their shards), or: all")
    run.add_argument("--n", type=positive, metavar="N", help="repeats, if not as many as usual")
    run.add_argument("--budget", type=float, metavar="MIN", help="begin no run after so many minutes; go on later")
    run.add_argument("--only", nargs="+", default=[], metavar="WORD", help="these links, sets or movers only, by name")
    made = commands.add_parser("report", help="write docs/results and one HTML file from what is known")
    made.add_argument("names", nargs="*", metavar="NAME", help="pages or shards; all without a name")
    made.add_argument("--output", type=Path, default=places.PAGES, metavar="DIR", help="where the pages go")
    made.add_argument("--html", type=Path, default=places.HTML, metavar="FILE", help="where the HTML report goes")
    checked = commands.add_parser("check", help="build links from scenarios and verify them with iperf3")
    checked.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="names or files; all without one")
    commands.add_parser("install", help="install the rivals and what the lab itself needs")
    commands.add_parser("smoke", help="a little of everything in two minutes; part of make test-all")
    return parser.parse_args()


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return value


def main() -> int:
    chosen = arguments()
    match chosen.command:
        case "list":
            return listed()
        case "report":
            try:
                return report(chosen)
            except OSError as error:
                print(f"a page cannot be written: {error}", file=sys.stderr)
                return 1
        case "install":
            return install.everything()
        case "smoke":
            # It says itself what it lacks.
            signal.signal(signal.SIGTERM, leave)
            return smoke.main()
    if os.geteuid() != 0:
        print("network namespaces and control groups need root", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, leave)
    if chosen.command == "check":
        return checked(chosen.scenarios)
    return measure(catalogue.asked(chosen.names), chosen)


def checked(words: list[str]) -> int:
    try:
        return check.main(words)
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return 2


def leave(number: int, frame: object) -> None:
    """Asked to stop, leave as on Ctrl-C: namespaces, processes and memory are given back."""
    sys.exit(128 + number)


def listed() -> int:
    width = max(map(len, catalogue.shards()))
    print(f"{'name':{width}} {'page':12} {'min':>4} {'measured':>12}  what")
    pages = catalogue.pages()
    for shard in catalogue.shards().values():
        print(f"{shard.name:{width}} {pages[shard.name]:12} {shard.minutes:4} {amount(shard):>12}  {shard.title}")
    if reason := Tidegate("a").missing():
        print(f"{reason}; what needs it is not counted")
    print(f"{sum(shard.minutes for shard in catalogue.shards().values()) / 60:.0f} hours in all; results are in "
          f"{places.BUILD / 'lab'}")
    return 0


def amount(shard: Shard) -> str:
    done = shard.measured()
    return "unknown" if done is None else f"{done[0]} of {done[1]}"


def measure(wanted: list[Shard], chosen: argparse.Namespace) -> int:
    """One after the other; what fails does not keep the rest from being measured."""
    began, good = time.monotonic(), True
    for i, shard in enumerate(wanted):
        spent = (time.monotonic() - began) / 60
        if chosen.budget is not None and spent >= chosen.budget:
            print(f"{chosen.budget:g} min are over before {shard.name}; the same command goes on", flush=True)
            break
        left = sum(each.minutes for each in wanted[i:])
        print(f"== {shard.name} ({i + 1} of {len(wanted)}): {shard.title}; {amount(shard)} runs are known; about "
              f"{shard.minutes} min if nothing is, {left} with what follows", flush=True)
        budget = None if chosen.budget is None else chosen.budget - spent
        try:
            good = shard.measure(Options(chosen.n, budget, tuple(chosen.only))) and good
        except NotHere as reason:
            if len(wanted) == 1:
                raise
            print(f"left out: {reason}", flush=True)
    print(f"{(time.monotonic() - began) / 60:.0f} min; python3 -m lab report writes the pages"
          + ("" if good else "; some runs FAILED: the same command tries them again"), flush=True)
    return 0 if good else 1


def report(chosen: argparse.Namespace) -> int:
    """A page of which nothing is known here stays as it is, unless it is asked for by name."""
    for chapter in catalogue.chapters(chosen.names):
        if not chosen.names and not chapter.measured():
            print(f"{chapter.page}: nothing was measured here, so the page stays as it is")
            continue
        chapter.made().write(chosen.output)
        print(f"wrote {chosen.output / chapter.page}.md")
    try:
        html.write(chosen.output, chosen.html, [chapter.page for chapter in catalogue.CHAPTERS])
    except html.Missing as reason:
        print(reason, file=sys.stderr)
        return 1
    print(f"wrote {chosen.html}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
