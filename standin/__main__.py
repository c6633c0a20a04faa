"""python3 -m standin --root DIR: serves a made data set; python3 -m standin make --root DIR: makes one."""

import argparse
import dataclasses
import json
import signal
import sys
from pathlib import Path

from standin.faults import Faults
from standin.make import SHAPES, make
from standin.server import Server


def maker() -> argparse.ArgumentParser:
    """Options of `make`."""
    parser = argparse.ArgumentParser(prog="python3 -m standin make", description="Makes a data set.")
    parser.add_argument("--root", type=Path, required=True, help="where to make it")
    parser.add_argument("--runs", type=int, default=len(SHAPES), help="how many runs")
    parser.add_argument("--mb", type=float, default=0.25, help="MiB a run, roughly")
    parser.add_argument("--seed", type=int, default=1, help="seed of every byte")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES,
                        help="what runs look like, one after the other; `paired` alone gives SRR runs only")
    parser.add_argument("--table-only", action="store_true", help="make no files, only the table about them")
    return parser


def told() -> list[dataclasses.Field]:
    """The faults that the command line sets."""
    return [each for each in dataclasses.fields(Faults) if each.metadata]


def server() -> argparse.ArgumentParser:
    """Options of serving."""
    parser = argparse.ArgumentParser(prog="python3 -m standin", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the data set")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--real-names", action="store_true",
                        help="name places as the archives do, for programs that a hosts file leads here")
    parser.add_argument("--data-url", help="where the files are, if another server has them")
    faults = parser.add_argument_group("faults")
    for each in told():
        switch = {"action": "store_true"} if each.type is bool else {"type": each.type, "default": each.default}
        faults.add_argument(f"--{each.name.replace('_', '-')}", **switch, **each.metadata)
    return parser


def serve(options: argparse.Namespace) -> None:
    """Serves until it is told to stop."""
    faults = Faults(**{each.name: getattr(options, each.name) for each in told()})
    running = Server((options.address, options.port), options.root, faults, options.data_url, options.real_names)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(json.dumps(running.urls()), flush=True)
    try:
        running.serve_forever(poll_interval=0.05)
    except (KeyboardInterrupt, SystemExit):
        running.server_close()


def main() -> None:
    """The command line."""
    if sys.argv[1:2] == ["make"]:
        options = maker().parse_args(sys.argv[2:])
        made = make(options.root, options.runs, options.mb, options.seed, options.shapes, not options.table_only)
        print(json.dumps({"runs": len(made["runs"]), "seed": made["seed"]}))
    else:
        serve(server().parse_args())


if __name__ == "__main__":
    main()
