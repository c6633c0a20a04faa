"""Copies within this host beside `cp -a`, in turns: time, and processor time of the whole process.

    python3 -m lab.local [--files N] [--mib SIZE] [--runs N] [--place DIRECTORY] [--program PATH …]

One file of `--mib` and a tree of `--files` small ones are copied beneath `--place`, each run into a new directory. Every
`--program` is measured, so that two builds can be compared; TIDEGATE_BIN names the first.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SMALL = range(2_000, 6_000)
A_DIRECTORY = 1_000


def tree(place: Path, files: int) -> Path:
    """Small files of 2 to 6 kB, a thousand in each directory."""
    made = place / "small"
    for number in range(files):
        directory = made / str(number // A_DIRECTORY)
        if number % A_DIRECTORY == 0:
            directory.mkdir(parents=True)
        (directory / str(number)).write_bytes(os.urandom(SMALL[number * 37 % len(SMALL)]))
    return made


def large(place: Path, mib: int) -> Path:
    """One file that nothing compresses."""
    made = place / "large"
    with made.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))
    return made


def once(command: Sequence[str], into: Path) -> tuple[float, float]:
    """Seconds by the clock and of processors."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    begun = time.monotonic()
    process = subprocess.Popen([*command, f"{into}/"])
    _, status, used = os.wait4(process.pid, 0)
    took = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return took, used.ru_utime + used.ru_stime


def compare(source: Path, programs: Sequence[str], runs: int) -> None:
    """Prints the medians of all ways, and their ratios to those of `cp -a`."""
    state = source.parent / "state"
    ways = {"cp -a": ["cp", "-a", str(source)]} | {
        program: [program, "copy", "-q", "--no-memory", "--state", str(state), str(source)] for program in programs}
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, command in ways.items():
            # What was verified before is not copied again.
            shutil.rmtree(state, ignore_errors=True)
            taken[way].append(once(command, source.parent / "into"))
    medians = {way: [statistics.median(column) for column in zip(*rows)] for way, rows in taken.items()}
    base = medians["cp -a"]
    for way, (clock, processors) in medians.items():
        print(f"{source.name:6} {way:40} {clock:7.2f} s ({base[0] / clock:4.2f} of cp's rate)  "
              f"{processors:6.2f} CPU s ({processors / base[1]:4.2f} times cp's)  n = {runs}", flush=True)


def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=30_000)
    parser.add_argument("--mib", type=int, default=2_048)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--place", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--program", action="append", default=[])
    chosen = parser.parse_args()
    programs = chosen.program or [os.environ.get("TIDEGATE_BIN", "target/release/tidegate")]
    with tempfile.TemporaryDirectory(dir=chosen.place) as place:
        if chosen.mib > 0:
            compare(large(Path(place), chosen.mib), programs, chosen.runs)
            (Path(place) / "large").unlink()
            shutil.rmtree(Path(place) / "into")
        if chosen.files > 0:
            compare(tree(Path(place), chosen.files), programs, chosen.runs)


if __name__ == "__main__":
    main()
