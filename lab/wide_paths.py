"""Draws simulated paths of every kind to judge rules on: python3 -m lab.wide_paths COUNT SEED FOLDER.

Links from 1 Mbit/s to 100 Gbit/s and from 0.2 to 300 ms; stages that stop for seconds; flows that come and go; losses by
chance, from the start or from some moment on; data that is moved after seconds; and all of `lab.hard_paths`. COUNT
scenarios, w0.toml and so on, are written into FOLDER, as that writes its own. The same seed gives the same paths.

    cargo run --release -p tidegate-control --example hard_paths -- FOLDER
"""

import math
import random
import sys

from lab.hard_paths import into_folder, rate

# The link in bit/s, and its round trip in seconds.
RATES = (1e6, 100e9)
ROUND_TRIPS = (0.0002, 0.3)
# Workers that fill the link; the most there may be.
NEEDS = (0.5, 40)
MOST = 64
# What happens once in a while, and how likely that is.
STALLS, FLOWS, LOSSES, ENDS, CHANGES, CROWDS = 0.25, 0.35, 0.25, 0.2, 0.5, 0.3
# The time for which a path is driven, in seconds.
RUN = 60


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def draw(rng: random.Random, name: str) -> str:
    """The text of a scenario. What is asked of `rng`, and in what order, fixes the path: change neither."""
    link = log_uniform(rng, *RATES)
    round_trip = log_uniform(rng, *ROUND_TRIPS)
    worker = {stage: link / log_uniform(rng, *NEEDS) for stage in ("network", "read", "write")}
    lines = [f'name = "{name}"', 'description = "A path of any kind, drawn at random."']
    there = [stage for stage in worker if stage == "network" or rng.random() < 0.85]
    for stage in there:
        lines += pool(rng, stage, worker[stage])
    lines += ["[link]", f"rate = {rate(link)}", f'rtt = "{round_trip * 1e6:.0f}us"', "ramp_rtts = 6"]
    if rng.random() < LOSSES:
        lines += [f"loss = {log_uniform(rng, 1e-5, 1e-2):.2e}"]
    lines += [f"surplus_loss = {rng.choice((0, 0.003, 0.3))}", "[staging]"]
    lines += [f'{end} = "{int(link / 8 * log_uniform(rng, 0.05, 5)) + 2**20}B"' for end in ("sender", "receiver")]
    lines += ["[noise]", f"throughput = {rng.uniform(0, 0.1):.3f}", "[decision]", f'lag = "{rng.randrange(0, 200)}ms"']
    if rng.random() < FLOWS:
        lines += ["[background]", f"streams = {rng.choice((0, 1, 4))}", "[background.bursts]"]
        lines += [f"streams = {rng.choice((1, 3, 8, 16))}", f'on = "{rng.choice((3, 8, 20))}s"']
        lines += [f'off = "{rng.choice((3, 8, 20))}s"']
    if rng.random() < ENDS:
        lines += ["[dataset]", f'size = "{int(link / 8 * rng.uniform(4, 15)) + 1}B"', "files = 100"]
    for at, what in sorted(moments(rng, link, worker, there)):
        lines += ["[[timeline]]", f'at = "{at}ms"', what]
    return "\n".join(lines) + "\n"


def pool(rng: random.Random, stage: str, worker: float) -> list[str]:
    """A stage, in three of ten with workers that disturb one another."""
    lines = [f"[{stage}]", f"worker_rate = {rate(worker)}", f"max_workers = {MOST}"]
    if rng.random() < CROWDS:
        lines += [f"knee.workers = {rng.randrange(4, 40)}", f"knee.slope = {log_uniform(rng, 0.005, 0.1):.4f}"]
    return lines


def moments(rng: random.Random, link: float, worker: dict[str, float], there: list[str]) -> list[tuple[int, str]]:
    """What happens, and when in ms. No two at once: the second of a pair would take the first one back."""
    drawn = {}
    if rng.random() < STALLS:
        stage, stop, every = rng.choice(there), rng.choice((1000, 3000)), rng.choice((6000, 10000, 20000))
        for at in range(rng.randrange(2000, every + 2000), RUN * 1000, every):
            drawn[at] = f"{stage}.worker_rate = {rate(1)}"
            drawn[at + stop] = f"{stage}.worker_rate = {rate(worker[stage])}"
        there = [other for other in there if other != stage]
    if rng.random() < CHANGES:
        for at in rng.sample(range(8001, 50001, 2), rng.choice((1, 2))):
            drawn[at] = rng.choice([
                f"link.rate = {rate(link * rng.choice((0.25, 0.5, 0.7, 1.5, 3)))}",
                f"link.loss = {log_uniform(rng, 1e-5, 1e-2):.2e}",
                *(f"{stage}.worker_rate = {rate(worker[stage] * rng.choice((0.4, 2)))}" for stage in there),
            ])
    return list(drawn.items())


def scenarios(count: int, seed: int) -> list[str]:
    """The texts of the first `count` paths of a seed."""
    rng = random.Random(seed)
    return [draw(rng, f"w{i}") for i in range(count)]


def main() -> int:
    return into_folder("lab.wide_paths", "w", scenarios)


if __name__ == "__main__":
    sys.exit(main())
