"""python3 -m lab.fleet smoke: movers by Slurm on two hosts, in a minute; part of `make test-all`."""

import argparse
import signal
import sys

from lab.fleet import smoke


def leave(number: int, frame: object) -> None:
    """Asked to stop, leave as on Ctrl-C: namespaces and processes are given back."""
    sys.exit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m lab.fleet", description="Many hosts move one data set.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("smoke", help="movers by Slurm on two hosts; part of make test-all")
    parser.parse_args()
    signal.signal(signal.SIGTERM, leave)
    return smoke.main()


if __name__ == "__main__":
    sys.exit(main())
