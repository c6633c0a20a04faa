"""What is measured of the service, cell by cell: a rotation over tasks that goes on where it was stopped."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from lab.ground.results import Record, now, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.ground.shell import CommandFailed, exists
from lab.ground.stats import rotated
from lab.movers.runner import alone, memory
from lab.rivals.tidegate import Tidegate
from lab.shard import Options, known_of, results, selected

Where = TypeVar("Where")
SEED = 1


@dataclass(frozen=True)
class Outcome:
    """What one cell showed."""

    seconds: float
    bytes: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)
    verified: str = ""

    @property
    def rate_bps(self) -> float:
        return self.bytes * 8 / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Task(Generic[Where]):
    """One cell: what is measured (a row of a table), in which way (a column), and about how long that takes."""

    set: str
    contender: str
    expected_s: float
    measure: Callable[[Where, int], Outcome]
    # Programs without which it cannot be measured.
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan(Generic[Where]):
    """The tasks of a shard, and where they are measured."""

    shard: str
    site: Callable[[], AbstractContextManager[Where]]
    tasks: Sequence[Task[Where]]
    repeats: int


def names(task: Task[Any]) -> tuple[str, str]:
    return task.set, task.contender


def able(tasks: Sequence[Task[Where]]) -> list[Task[Where]]:
    """Those whose programs are there; the others are named."""
    missing: dict[str, list[str]] = {}
    for task in tasks:
        for program in task.programs:
            if not exists(program):
                missing.setdefault(program, []).append(f"{task.set} ({task.contender})")
    for program, those in missing.items():
        print(f"left out, {program} is not installed: {', '.join(those)}")
    return [task for task in tasks if all(exists(program) for program in task.programs)]


def counted(plan: Plan[Any]) -> tuple[int, int]:
    """How many of how many runs are known."""
    cells = {names(task) for task in plan.tasks if all(exists(program) for program in task.programs)}
    return known_of(plan.shard, cells, plan.repeats)


def measured(task: Task[Where], where: Where, blank: Record) -> Record:
    try:
        outcome = task.measure(where, blank.repeat)
    except (CommandFailed, OSError, ValueError, KeyError, TypeError) as failure:
        return blank.failed(failure, time=now())
    return replace(blank, ok=True, time=now(), seconds=outcome.seconds, bytes=outcome.bytes, rate_bps=outcome.rate_bps,
                   notes=dict(outcome.notes), verified=outcome.verified)


def run_all(plan: Plan[Where], options: Options) -> bool:
    """Measures what is not yet in the results file. True when nothing failed."""
    shard = plan.shard
    file, version, repeats = results(shard), Tidegate("a").version(), options.repeats or plan.repeats
    tasks = able(selected("set or contender", plan.tasks, options.only, names))
    set_aside_if_outdated(file, shard, {task.contender: version for task in tasks})

    def blank(task: Task[Where], repeat: int) -> Record:
        return Record(scenario=shard, set=task.set, contender=task.contender, level="a", repeat=repeat, seed=SEED,
                      scale=1.0, ok=False, version=version)

    rotation = Rotation(file, 0.0, options.budget_min)
    todo = [(task, repeat) for repeat in range(repeats) for task in rotated(tasks, repeat)
            if blank(task, repeat).key not in rotation.known]
    rotation.expected_s = sum(task.expected_s for task, _ in todo)
    print(f"{shard}: {len(tasks)} cells, {repeats} repeats, {len(todo)} to do, about {rotation.left_min:.0f} min; "
          f"results go to {file}", flush=True)
    if not todo:
        return True
    with rotation.going(), alone(), memory(), plan.site() as where:
        for task, repeat in todo:
            rotation.take(blank(task, repeat), task.expected_s, partial(measured, task, where, blank(task, repeat)))
    return rotation.good
