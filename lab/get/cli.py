"""The command `python3 -m lab get`: more ways to measure downloads than the shards have."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.install import install as install_packages
from lab.links.delayed import PACKAGES as PATH_PACKAGES
from lab.links.delayed import DelayedLink
from lab.ground import places
from lab.get import archive, probes, report, rotation
from lab.get.cases import CASES, SMALL, Case
from lab.get.ours import no_get
from lab.get.trial import binary
from lab.ground.results import load
from lab.rivals.base import Contender
from lab.ground.shell import CommandFailed

SMOKE_SCALE = 0.02
SMOKE = ("capped", "busy", "fig6-2", "small-rtt")
SMOKE_SETS = ("H43", "F40", "S5000")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    get = commands.add_parser("get", help="for experts: downloads in more ways than the shards get-* have; then "
                              "writes the page")
    get.add_argument("--scenario", nargs="+", choices=list(CASES), metavar="NAME",
                     help=f"these paths only: {', '.join(CASES)}")
    get.add_argument("--sets", nargs="+", metavar="NAME", help="these sets only, for example H10")
    get.add_argument("--only", nargs="+", metavar="WORD", help="downloaders whose names hold one of the words, or of "
                     "one of the families tidegate, fixed, rule, aria2, rclone, curl, wget2, archive")
    get.add_argument("--n", type=int, default=5, help="repeats")
    get.add_argument("--lean", action="store_true", help="only what bars are about, and the likeliest settings")
    get.add_argument("--seed", type=int, default=1, help="seed of the data")
    get.add_argument("--scale", type=float, default=1.0, help="smaller sets, to try the harness")
    get.add_argument("--budget", type=float, metavar="MINUTES", help="begin no run after so long; go on later")
    get.add_argument("--results", type=Path, default=rotation.RESULTS)
    get.add_argument("--output", type=Path, default=places.PAGES, help="directory of the page")
    get.add_argument("--fresh", action="store_true", help="forget what the results file holds")
    get.add_argument("--keep-rivals", action="store_true",
                     help="a new build of ours is measured beside what is known of the others")
    get.add_argument("--retry", action="store_true", help="measure again what failed")
    get.add_argument("--no-install", action="store_true", help="install nothing")
    get.add_argument("--tables", action="store_true", help="measure nothing, write the tables")
    get.add_argument("--smoke", action="store_true", help="tiny sets, a few downloaders once, under two minutes")
    get.add_argument("--plan", action="store_true", help="measure nothing, say what would be and how long it takes")
    get.add_argument("--million", nargs="?", const="tiny", choices=probes.KINDS,
                     help="memory for a list of a million URLs of that kind, tiny if none is named")
    get.add_argument("--urls", type=int, default=probes.MILLION, help="so many instead")
    get.add_argument("--seconds", type=float, default=probes.MILLION_S, help="stop it after so long")
    get.add_argument("--huge", action="store_true", help="one file of 20 GB, killed half way")
    get.add_argument("--gb", type=float, default=20, help="so large instead")
    get.add_argument("--resolve", action="store_true", help="requests and time for 1,000 accessions")
    get.add_argument("--accessions", type=int, default=1000, help="so many instead")
    get.add_argument("--check-path", action="store_true", help="measure the path with a round-trip time")


def wanted(chosen: argparse.Namespace) -> list[Case]:
    return [CASES[name] for name in chosen.scenario or CASES]


def everyone() -> list[Contender]:
    return [contender for case in CASES.values() for contender in rotation.contenders(case)]


def install() -> None:
    install_packages(everyone(), PATH_PACKAGES)
    archive.install()


def main(chosen: argparse.Namespace) -> int:
    if chosen.tables:
        report.made(load(chosen.results), probes.recalled()).write(chosen.output)
        return 0
    if chosen.plan:
        plan(wanted(chosen), chosen)
        return 0
    if os.geteuid() != 0:
        print("network namespaces and control groups need root", file=sys.stderr)
        return 2
    if not chosen.no_install:
        install()
    if chosen.check_path:
        return check_path()
    asked = [name for name in ("million", "huge", "resolve") if getattr(chosen, name)]
    # Others can be measured before there is a program of ours.
    if (reason := no_get(binary())) and (asked or not chosen.only):
        print(reason, file=sys.stderr)
        return 2
    if asked:
        return probe(asked, chosen)
    return measure(chosen)


def measure(chosen: argparse.Namespace) -> int:
    settings = rotation.Settings(chosen.n, chosen.seed, chosen.results, chosen.scale, chosen.budget, chosen.retry,
                                 keep_rivals=chosen.keep_rivals, lean=chosen.lean)
    cases, sets, output, page = wanted(chosen), chosen.sets, chosen.output, "get"
    if chosen.smoke:
        results = rotation.RESULTS.with_name("get-smoke.jsonl")
        settings = rotation.Settings(1, chosen.seed, results, SMOKE_SCALE, smoke=True)
        cases = [case for case in cases if case.name in (chosen.scenario or SMOKE)]
        sets = chosen.sets or SMOKE_SETS
        output, page = results.parent, "get-smoke"
    if chosen.smoke or chosen.fresh:
        settings.results.unlink(missing_ok=True)
    good = rotation.run_all(cases, sets, chosen.only, settings)
    whole = not (chosen.smoke or chosen.scenario or chosen.sets or chosen.only or chosen.budget)
    if whole:
        known = probes.recalled()
        good = probe([name for name in ("million", "huge", "resolve") if name not in known], chosen) == 0 and good
    records = [r for r in load(settings.results) if r.scale == settings.scale]
    report.made(records, {} if chosen.smoke else probes.recalled(), page).write(output)
    return 0 if good else 1


def probe(names: Sequence[str], chosen: argparse.Namespace) -> int:
    status = 0
    for name in names:
        try:
            if name == "million":
                kind = chosen.million or "tiny"
                outcome, name = probes.million(kind, chosen.urls, chosen.seconds), f"million {kind}"
            elif name == "huge":
                outcome = probes.huge(int(chosen.gb * 1e9))
            else:
                outcome = probes.resolve(chosen.accessions)
        except CommandFailed as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            status = 1
            continue
        print(f"{name}: {dict(outcome)}", flush=True)
        probes.remember(name, outcome)
    return status


def check_path() -> int:
    try:
        with DelayedLink(SMALL.rtt_ms, SMALL.rate_mbit or 0) as link:
            rtt, mbit = link.check()
    except CommandFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"{rtt:.1f} ms of {SMALL.rtt_ms:g}, {mbit:.0f} of {SMALL.rate_mbit} Mbit/s")
    return 0 if mbit >= 0.9 * (SMALL.rate_mbit or 0) else 1


def plan(cases: Sequence[Case], chosen: argparse.Namespace) -> None:
    """What is to be measured and about how long it takes; the best settings of a family are not known before."""
    total = 0.0
    settings = rotation.Settings(chosen.n, chosen.seed, chosen.results, chosen.scale, retry=chosen.retry)
    for case in cases:
        able = rotation.chosen(rotation.contenders(case), chosen.only)
        if chosen.lean:
            able = rotation.lean(case, able)
        for name in case.sets:
            if chosen.sets is None or name in chosen.sets:
                seconds = rotation.remaining_s(case, name, able, settings)
                total += seconds
                print(f"{case.name:10} {name:6} {len(able):3} downloaders  {seconds / 60:5.0f} min left")
    print(f"{total / 60:.0f} min in all")
