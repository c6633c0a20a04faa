"""`python3 -m lab eos`: what is asked for is measured, and the page is written from all that is known."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import install
from lab.ground import places
from lab.eos import jobs, kills, load, paths, queue, report
from lab.rivals.tidegate import Tidegate

RESULTS = places.BUILD / "lab" / "eos.json"
OUTPUT = places.REPOSITORY / "docs" / "results" / "eos.md"
PACKAGES = ("iperf3", "globus-gass-copy-progs", "globus-gridftp-server-progs")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=("paths", "load", "queue", "kills", "jobs"),
                        help="these parts only: paths, load, queue, kills, jobs")
    parser.add_argument("--n", type=int, default=5, help="repeats")
    parser.add_argument("--jobs", type=int, default=100, help="jobs of a run through the scheduler")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--no-install", action="store_true", help="install nothing")
    parser.add_argument("--tables", action="store_true", help="measure nothing, write the page")


def main(chosen: argparse.Namespace) -> int:
    if not chosen.no_install and not chosen.tables:
        install.install([], PACKAGES)
    found: dict[str, Any] = json.loads(chosen.results.read_text()) if chosen.results.exists() else {}
    parts: dict[str, Callable[[], Any]] = {"paths": lambda: paths.measured(chosen.n),
                                           "load": lambda: load.measured(chosen.n), "queue": queue.measured,
                                           "kills": kills.measured, "jobs": lambda: jobs.measured(chosen.n, chosen.jobs)}
    for name, measure in parts.items():
        if chosen.tables or (chosen.only and name not in chosen.only):
            continue
        print(f"{name} …", flush=True)
        found[name] = measure()
        found["version"] = Tidegate("a").version()
        print(json.dumps(found[name]), flush=True)
        chosen.results.parent.mkdir(parents=True, exist_ok=True)
        chosen.results.write_text(json.dumps(found))
    chosen.output.write_text(report.page(found, found.get("version", "")))
    print(f"wrote {chosen.output}")
    return 0
