"""`python3 -m lab eos`: what is asked for is measured, and the page is written from all that is known."""

import argparse

from lab import install
from lab.eos import jobs, report
from lab.eos.found import read
from lab.eos.shards import SHARDS
from lab.eos.task import run_all
from lab.ground import places
from lab.shard import Options

PACKAGES = ("iperf3", "globus-gass-copy-progs", "globus-gridftp-server-progs")


def options(parser: argparse.ArgumentParser) -> None:
    names = [shard.name.removeprefix("eos-") for shard in SHARDS]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names,
                        help=f"these parts only: {', '.join(names)}")
    parser.add_argument("--n", type=int, help="repeats; each part has a number of its own")
    parser.add_argument("--jobs", type=int, default=jobs.COUNT, help="jobs of a run through the scheduler")
    parser.add_argument("--budget", type=float, metavar="MINUTES", help="begin nothing after that")
    parser.add_argument("--smoke", action="store_true", help="tiny settings, kept apart and not shown on the page")
    parser.add_argument("--no-install", action="store_true", help="install nothing")
    parser.add_argument("--tables", action="store_true", help="measure nothing, write the page")


def main(chosen: argparse.Namespace) -> int:
    if not chosen.no_install and not chosen.tables:
        install.install([], PACKAGES)
    wanted, good = Options(chosen.n, chosen.budget, (), chosen.smoke), True
    for shard in () if chosen.tables else SHARDS:
        if chosen.only and shard.name.removeprefix("eos-") not in chosen.only:
            continue
        if shard.name == jobs.SHARD:
            good = run_all(jobs.plan(wanted, chosen.jobs), wanted) and good
        else:
            good = shard.measure(wanted) and good
    if not chosen.smoke:
        page = report.page(read())
        page.write(places.REPOSITORY / "docs" / "results")
        print(f"wrote docs/results/{page.name}.md")
    return 0 if good else 1
