"""Draws simulated paths to judge rules on: python3 -m lab.hard_paths COUNT SEED FOLDER.

COUNT scenarios, h0.toml and so on, are written into FOLDER. The same seed gives the same paths (a test holds what was
drawn once), and the first of them do not depend on how many are asked for. A folder called as its seed is judged by

    cargo run --release -p tidegate-control --example hard_paths -- FOLDER

Seeds that served for tuning are named there.
"""

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

# Workers that fill the link.
NEEDS = (1, 1, 2, 3, 5, 8, 12, 17, 24, 31)


def rate(bits: float) -> str:
    return f'"{max(1, int(bits))}bit/s"'


def draw(rng: random.Random, name: str) -> str:
    """The text of a scenario. What is asked of `rng`, and in what order, fixes the path: change neither."""
    link = 10 ** rng.uniform(7.3, 10.7)
    needs = {stage: rng.choice(NEEDS) for stage in ("network", "read", "write")}
    worker = {stage: link / need * rng.uniform(0.98, 1.02) for stage, need in needs.items()}
    lines = [f'name = "{name}"', 'description = "A path drawn at random."']
    for stage in worker:
        if stage == "network" or rng.random() <= 0.8:
            lines += pool(rng, stage, worker[stage])
    lines += ["[link]", f"rate = {rate(link)}", f'rtt = "{rng.choice((1, 5, 15, 30, 60, 120))}ms"']
    lines += [f"ramp_rtts = {rng.choice((0, 5, 8))}", f"surplus_loss = {rng.choice((0, 0.3))}", "[staging]"]
    lines += [f'{end} = "{int(link / 8 * rng.choice((0.05, 0.3, 2)))}B"' for end in ("sender", "receiver")]
    lines += ["[noise]", f"throughput = {rng.choice((0, 0.03, 0.08))}"]
    if rng.random() < 0.5:
        lines += ["[background]", f"streams = {rng.choice((1, 3, 10))}"]
    for at in sorted(rng.sample(range(8, 50), rng.choice((0, 1, 2)))):
        lines += ["[[timeline]]", f'at = "{at}s"', change(rng, link, worker["network"])]
    return "\n".join(lines) + "\n"


def pool(rng: random.Random, stage: str, worker: float) -> list[str]:
    """A stage, in three of ten with workers that disturb one another."""
    lines = [f"[{stage}]", f"worker_rate = {rate(worker)}", "max_workers = 64"]
    if rng.random() < 0.3:
        lines += [f"knee.workers = {rng.randrange(4, 40)}", f"knee.slope = {rng.uniform(0.01, 0.1):.3f}"]
    return lines


def change(rng: random.Random, link: float, stream: float) -> str:
    """A narrower link, slower or faster streams, or foreign ones. All three are drawn, and one is taken."""
    return rng.choice((
        f"link.rate = {rate(link * rng.choice((0.4, 0.6, 0.8)))}",
        f"network.worker_rate = {rate(stream * rng.choice((0.5, 2)))}",
        f"background.streams = {rng.choice((0, 2, 12))}",
    ))


def scenarios(count: int, seed: int) -> list[str]:
    """The texts of the first `count` paths of a seed."""
    rng = random.Random(seed)
    return [draw(rng, f"h{i}") for i in range(count)]


def into_folder(program: str, letter: str, drawn: Callable[[int, int], list[str]]) -> int:
    """What a program does that draws paths: COUNT of SEED are written into FOLDER."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {program}", description="Draws paths to judge rules on.")
    parser.add_argument("count", type=int, metavar="COUNT", help="how many")
    parser.add_argument("seed", type=int, metavar="SEED", help="of all of them")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where they go; is made if need be")
    chosen = parser.parse_args()
    try:
        chosen.folder.mkdir(parents=True, exist_ok=True)
        for i, text in enumerate(drawn(chosen.count, chosen.seed)):
            (chosen.folder / f"{letter}{i}.toml").write_text(text)
    except OSError as error:
        print(f"no paths drawn: {error}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    return into_folder("lab.hard_paths", "h", scenarios)


if __name__ == "__main__":
    sys.exit(main())
