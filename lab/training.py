"""How long it takes to learn a path: `tidegate train` with one seed after the other, what it says of each kept.

Not a grid: no link is built and nothing is moved. Resumable like one: a line of JSON for each seed.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.ground import places, program
from lab.ground.quiet import quiet
from lab.ground.results import Record, latest, now, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.movers.runner import alone
from lab.pages.parts import csv
from lab.shard import Options, Shard, known, results, selected

# AutoMDT's authors waited for an hour; a recipe that takes longer here has failed.
LIMIT_S = 1800.0
# Where the criterion was not met the best policy is kept all the same.
DONE, NOT_MET = 0, 1
# How a policy was learned is written as CSV: series, episodes, utility as a share of R_max.
PLAYED, CURVE_POINTS = "played", 60


@dataclass(frozen=True)
class Course:
    """One recipe on one path, with so many seeds."""

    recipe: str
    scenario: Path
    seeds: int
    # About how long one seed takes, for the plan.
    expected_s: float

    @property
    def path(self) -> str:
        return self.scenario.stem

    def argv(self, seed: int, output: Path, curve: Path) -> list[str]:
        return [str(word) for word in (places.tidegate_binary(), "train", "--scenario", self.scenario, "--recipe",
                                       self.recipe, "--seed", seed, "--output", output, "--curve", curve, "--json",
                                       "-q")]


def training(name: str, title: str, courses: Callable[[], Sequence[Course]]) -> Shard:
    """A shard that learns instead of moving."""
    expected = sum(course.seeds * course.expected_s for course in courses())

    def counted() -> tuple[int, int]:
        wanted = {(course.path, course.recipe, seed) for course in courses() for seed in range(1, course.seeds + 1)}
        done = {(record.set, record.contender, record.seed) for record in known(name) if record.ok}
        return len(wanted & done), len(wanted)

    return Shard(name, title, max(1, round(expected / 60)), lambda options: run_all(name, courses(), options), counted)


def run_all(shard: str, courses: Sequence[Course], options: Options) -> bool:
    """Trains what is not yet in the results file. True when nothing failed."""
    if reason := program.missing():
        raise SystemExit(reason)
    version, able = program.version(), chosen(courses, options.only)
    file = results(shard)
    set_aside_if_outdated(file, shard, {course.recipe: version for course in able})
    todo = [(course, seed) for course in able for seed in range(1, (options.repeats or course.seeds) + 1)]
    rotation = Rotation(file, sum(course.expected_s for course, _ in todo), options.budget_min)
    print(f"{shard}: {len(todo)} policies, about {rotation.left_min:.0f} min; results go to {file}", flush=True)
    with rotation.going(), alone():
        for course, seed in todo:
            blank = Record(scenario=shard, set=course.path, contender=course.recipe, level="", repeat=seed - 1,
                           seed=seed, scale=1.0, ok=False, version=version, time=now())
            rotation.take(blank, course.expected_s, partial(learned, course, seed, blank))
    return rotation.good


def chosen(courses: Sequence[Course], only: tuple[str, ...]) -> list[Course]:
    return selected("path or recipe", courses, only, lambda course: (course.path, course.recipe))


def learned(course: Course, seed: int, blank: Record) -> Record:
    """One policy, learned on a quiet machine and thrown away; what was said of it is kept."""
    with tempfile.TemporaryDirectory() as scratch:
        curve = Path(scratch) / "curve.csv"
        argv = course.argv(seed, Path(scratch) / "policy.safetensors", curve)
        try:
            with quiet():
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return replace(blank, error=f"not done after {LIMIT_S:g} s")
        points = curve_points(curve.read_text()) if curve.exists() else []
    if done.returncode not in (DONE, NOT_MET):
        return replace(blank, error=f"status {done.returncode}: {done.stderr.strip()[-400:]}")
    try:
        said = json.loads(done.stdout)
        kept = {key: said[key] for key in KEPT if key in said}
        # The wall clock counts start-up too; the program's own clock is what papers report.
        return replace(blank, ok=True, seconds=said["duration_ms"] / 1000, notes={"said": kept, "curve": points})
    except (ValueError, KeyError, TypeError) as failure:
        return replace(blank, error=f"{type(failure).__name__}: {failure}: {done.stdout[-200:]}")


def curve_points(text: str) -> list[tuple[float, float]]:
    """Utility as it was played, by episodes: the series of that name, thinned to what a picture shows."""
    lines = [line.split(",") for line in text.splitlines()[1:]]
    points = [(float(episodes), float(share)) for series, episodes, share in lines if series == PLAYED]
    every = max(1, len(points) // CURVE_POINTS)
    return points[::every]


KEPT = ("status", "episodes", "converged_episodes", "converged_ms", "duration_ms", "episodes_per_second",
        "utility_share", "setpoint")


@dataclass(frozen=True)
class Learned:
    """What the seeds of one recipe on one path came to."""

    path: str
    recipe: str
    runs: Sequence[Record]

    def said(self, key: str) -> list[float]:
        return [float(run.notes["said"][key]) for run in self.runs if run.notes["said"].get(key) is not None]

    @property
    def met(self) -> int:
        """How many came to the papers' criterion."""
        return len(self.said("converged_episodes"))

    def mean_sd(self, key: str, digits: int = 0, scale: float = 1.0) -> str:
        """As the papers print it: mean ± standard deviation, which one value has none of."""
        values = [value * scale for value in self.said(key)]
        if not values:
            return "–"
        deviation = f" ± {statistics.stdev(values):,.{digits}f}" if len(values) > 1 else ""
        return f"{statistics.fmean(values):,.{digits}f}{deviation}"


def courses_in(records: Iterable[Record], shard: str) -> list[Learned]:
    """The good runs by path and recipe, as they first came; one that was trained again replaces the earlier."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in latest(records):
        if record.ok and record.scenario == shard:
            found.setdefault((record.set, record.contender), []).append(record)
    return [Learned(path, recipe, runs) for (path, recipe), runs in found.items()]


HEADS = ("path", "recipe", "seeds", "criterion met", "episodes", "seconds", "range", "episodes to the criterion",
         "seconds to it", "episodes/s", "best ÷ R_max")


def rows(found: Iterable[Learned]) -> list[list[str]]:
    return [[each.path, each.recipe, str(len(each.runs)), str(each.met), each.mean_sd("episodes"),
             each.mean_sd("duration_ms", 1, 1e-3),
             f"{min(each.said('duration_ms')) / 1e3:.1f}–{max(each.said('duration_ms')) / 1e3:.1f}",
             each.mean_sd("converged_episodes"), each.mean_sd("converged_ms", 1, 1e-3),
             f"{statistics.fmean(each.said('episodes_per_second')):,.0f}", each.mean_sd("utility_share", 3)]
            for each in found]


def raw(found: Iterable[Learned]) -> str:
    """Every seed as a line of CSV."""
    heads = ("path", "recipe", "seed", "episodes", "seconds", "converged_episodes", "converged_s",
             "episodes_per_second", "best_by_r_max", "version")
    lines = [(each.path, each.recipe, run.seed, said["episodes"], f"{said['duration_ms'] / 1e3:.3f}",
              said.get("converged_episodes") or "", thousandth(said.get("converged_ms")), said["episodes_per_second"],
              said["utility_share"], run.version)
             for each in found for run in each.runs for said in [run.notes["said"]]]
    return csv(heads, lines)


def thousandth(value: float | None) -> str:
    return "" if value is None else f"{value / 1e3:.3f}"
