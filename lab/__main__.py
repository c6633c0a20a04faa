"""python3 -m lab: run, smoke, report, controllers, live, get, eos, check, install."""

import argparse
import os
import signal
import sys
from pathlib import Path

from lab import install
from lab.controllers import report as controllers_page
from lab.controllers import rules as controllers
from lab.eos import cli as eos
from lab.get import cli as get
from lab.ground import places
from lab.links import check
from lab.live import experiments as live
from lab.links.tables import ScenarioError
from lab.live import report as live_page
from lab.movers import report
from lab.live.rules import rules
from lab.ground.results import load
from lab.rivals import at_levels
from lab.movers.runner import Settings, run_all
from lab.runs.setting import OPEN, SETTINGS

def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure; goes on where an earlier run stopped")
    run.add_argument("--level", choices=["a", "b", "c", "all"], default="all", help="level of trust")
    run.add_argument("--sets", default="ABCD", help="data sets, for example AC")
    run.add_argument("--n", type=int, default=5, help="repeats of each contender on each set")
    run.add_argument("--seed", type=int, default=1, help="seed of the data")
    run.add_argument("--scale", type=float, default=1.0, help="smaller sets, to try the harness")
    run.add_argument("--scenario", choices=list(SETTINGS), default=OPEN.name)
    run.add_argument("--only", nargs="+", metavar="WORD", help="contenders whose names hold one of the words")
    run.add_argument("--results", type=Path, default=places.RESULTS)
    run.add_argument("--fresh", action="store_true", help="forget what the results file holds")
    run.add_argument("--no-install", action="store_true", help="leave out what is not installed")
    smoke = commands.add_parser("smoke", help="tiny sets, every contender once")
    smoke.add_argument("--no-install", action="store_true", help="leave out what is not installed")
    made = commands.add_parser("report", help="write the tables")
    made.add_argument("--results", type=Path, default=places.RESULTS)
    made.add_argument("--output", type=Path, default=places.REPORT)
    rules = commands.add_parser("controllers", help="the control rules on a path that needs ten streams, and the demo; "
                                "goes on where an earlier run stopped, then writes the tables")
    rules.add_argument("--n", type=int, default=5, help="repeats of each rule")
    rules.add_argument("--seconds", type=float, default=10, help="length of each run with a fixed number")
    rules.add_argument("--only", nargs="+", metavar="NAME", help="these rules only, for example auto fixed:10 demo")
    rules.add_argument("--results", type=Path, default=controllers.RESULTS)
    rules.add_argument("--output", type=Path, default=controllers.PAGE)
    rules.add_argument("--fresh", action="store_true", help="forget what the results file holds")
    rules.add_argument("--no-install", action="store_true", help="install nothing")
    rules.add_argument("--tables", action="store_true", help="measure nothing, write the tables")
    paths = commands.add_parser("live", help="the control rules on AutoMDT's three paths, on paths that change and on "
                                "shared ones; goes on where an earlier run stopped, then writes the tables")
    paths.add_argument("--n", type=int, default=5, help="repeats of each rule on each path")
    paths.add_argument("--only", nargs="+", metavar="NAME", help="these paths or rules only, for example read auto")
    paths.add_argument("--results", type=Path, default=live.RESULTS)
    paths.add_argument("--output", type=Path, default=live.PAGE)
    paths.add_argument("--fresh", action="store_true", help="forget what the results file holds")
    paths.add_argument("--no-install", action="store_true", help="install nothing")
    paths.add_argument("--tables", action="store_true", help="measure nothing, write the tables")
    get.add(commands)
    eos.options(commands.add_parser("eos", help="the service: advice against sweeps, load, a long queue; then the page"))
    links = commands.add_parser("check", help="whether the links built from scenarios are what they say")
    links.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="names or files; all of them if there are none")
    commands.add_parser("install", help="install the rivals with apt, and some with pip")
    return parser.parse_args()

def main() -> int:
    chosen = arguments()
    match chosen.command:
        case "install":
            install.install(at_levels("abc", OPEN))
            get.install()
            return 0
        case "report":
            text = report.write(load(chosen.results))
            chosen.output.parent.mkdir(parents=True, exist_ok=True)
            chosen.output.write_text(text)
            print(f"wrote {chosen.output}")
            return 0
        case "controllers" if chosen.tables:
            controllers_page.write(load(chosen.results), chosen.output)
            return 0
        case "live" if chosen.tables:
            live_page.write(load(chosen.results), chosen.output)
            return 0
        case "get" if chosen.tables or chosen.plan:
            return get.main(chosen)
    if os.geteuid() != 0:
        print("network namespaces and control groups need root", file=sys.stderr)
        return 2
    # Asked to stop, leave as on Ctrl-C: namespaces, processes and memory are given back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if chosen.command == "check":
        return checked(chosen.scenarios)
    if chosen.command == "controllers":
        return measure_controllers(chosen)
    if chosen.command == "live":
        return measure_live(chosen)
    if chosen.command == "get":
        return get.main(chosen)
    if chosen.command == "eos":
        return eos.main(chosen)
    smoke = chosen.command == "smoke"
    scenario = OPEN if smoke else SETTINGS[chosen.scenario]
    contenders = at_levels("abc" if smoke or chosen.level == "all" else chosen.level, scenario)
    if not smoke and chosen.only:
        contenders = [c for c in contenders if any(word in c.name for word in chosen.only)]
    if not chosen.no_install:
        install.install(contenders)
    if smoke:
        for contender in contenders:
            contender.shorten()
        settings = Settings(scenario, "AC", 1, 1, places.SMOKE_RESULTS, scale=0.01, timeout_s=20)
    else:
        settings = Settings(scenario, chosen.sets, chosen.n, chosen.seed, chosen.results,
                            scale=chosen.scale)
    if smoke or chosen.fresh:
        settings.results.unlink(missing_ok=True)
    return 0 if run_all(settings, contenders) else 1

def checked(words: list[str]) -> int:
    try:
        return check.main(words)
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return 2

def measure_controllers(chosen: argparse.Namespace) -> int:
    if not chosen.no_install:
        install.install([])
    wanted = controllers.measurements(chosen.seconds)
    if chosen.only:
        wanted = [each for each in wanted if each.name in chosen.only]
        if not wanted:
            print(f"no rule here is called {' or '.join(chosen.only)}", file=sys.stderr)
            return 2
    if chosen.fresh:
        chosen.results.unlink(missing_ok=True)
    good = controllers.run_all(wanted, chosen.n, chosen.results)
    controllers_page.write(load(chosen.results), chosen.output)
    return 0 if good else 1

def measure_live(chosen: argparse.Namespace) -> int:
    if not chosen.no_install:
        install.install([])
    wanted = live.wanted(chosen.only, rules())
    if chosen.fresh:
        chosen.results.unlink(missing_ok=True)
    good = live.run_all(wanted, chosen.n, chosen.results)
    live_page.write(load(chosen.results), chosen.output)
    return 0 if good else 1

sys.exit(main())
