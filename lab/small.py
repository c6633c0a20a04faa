"""Many small files to an endpoint of this host, by builds in turns: copied, copied again, and compared by checksum.

    python3 -m lab.small [--files N] [--runs N] [--place DIRECTORY] --program PATH [--program PATH …]

A tree of `--files` of 300 bytes lies beneath `--place`, best in memory. Every run has an endpoint, a destination and state of its
own. Printed are medians by the clock, and the most memory that the endpoint had.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BYTES = 300
A_DIRECTORY = 1_000
SEED = 7
STEPS: dict[str, tuple[str, ...]] = {"first": (), "again": (), "by checksum": ("--checksum",)}
MEMORY = "endpoint, MiB"


def tree(place: Path, files: int) -> Path:
    """Files that nothing compresses, a thousand in each directory."""
    made, drawn = place / "source", random.Random(SEED)
    for number in range(files):
        directory = made / str(number // A_DIRECTORY)
        if number % A_DIRECTORY == 0:
            directory.mkdir(parents=True)
        (directory / str(number)).write_bytes(drawn.randbytes(BYTES))
    return made


@contextmanager
def endpoint(program: str, root: Path, environment: dict[str, str]) -> Iterator[tuple[str, int]]:
    """Its address, and its process."""
    command = [program, "endpoint", "--root", str(root), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip().rstrip("/"), process.pid
        finally:
            process.terminate()


def most_memory(process: int) -> float:
    """In MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def once(program: str, source: Path, place: Path) -> dict[str, float]:
    """What one run took."""
    home, root = place / "home", place / "there"
    for made in (home, root):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
    environment = os.environ | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    seen = {}
    with endpoint(program, root, environment) as (address, process):
        for step, options in STEPS.items():
            begun = time.monotonic()
            command = [program, "copy", *options, f"{source}/", f"{address}/copy/"]
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seen[step] = time.monotonic() - begun
        seen[MEMORY] = most_memory(process)
    return seen


def compare(source: Path, place: Path, programs: Sequence[str], runs: int) -> None:
    """Prints the medians of each program."""
    seen: dict[str, list[dict[str, float]]] = {program: [] for program in programs}
    for turn in range(runs):
        # Whoever came first comes last.
        for program in programs if turn % 2 == 0 else reversed(programs):
            seen[program].append(once(program, source, place))
    print(f"seconds, median of {runs}")
    for program, of_runs in seen.items():
        medians = (f"{what} {statistics.median(run[what] for run in of_runs):.2f}" for what in (*STEPS, MEMORY))
        print(f"{program}: {', '.join(medians)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--place", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--program", action="append", required=True)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as place:
        compare(tree(Path(place), asked.files), Path(place), asked.program, asked.runs)


if __name__ == "__main__":
    main()
