"""The rotation: every contender once on a set, then again from another start, n times."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.runs.datasets import Dataset, Plan, generate, plan, repeated
from lab.links.link import Link
from lab.links.percon import PerConnectionCap
from lab.ground.quiet import quiet
from lab.ground.reserve import Reserve, available
from lab.ground.results import Record, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.rivals.base import Contender, able
from lab.runs.setting import Setting
from lab.ground.shell import CommandFailed
from lab.ground.stats import rotated
from lab.runs.trial import Trial, measure
from lab.runs.verify import difference

LOCK = Path(os.environ.get("TIDEGATE_LAB_LOCK", "/run/tidegate-lab.lock"))


@dataclass(frozen=True)
class Settings:
    setting: Setting
    sets: str
    repeats: int
    seed: int
    results: Path
    scale: float = 1.0
    timeout_s: float = 600.0
    # Minutes after which no run begins; none if absent.
    budget_min: float | None = None


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Two measuring runs at once would spoil each other's data and figures."""
    with open(LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another run holds {LOCK}; wait for it to end") from None
        yield


@contextlib.contextmanager
def memory() -> Iterator[None]:
    """The data on tmpfs, gone afterwards however the run ends."""
    shutil.rmtree(places.MEMORY, ignore_errors=True)
    try:
        yield
    finally:
        shutil.rmtree(places.MEMORY, ignore_errors=True)


def room_for(planned: Plan, times: int) -> None:
    """Source and destination must fit into memory together."""
    needed = planned.size * (1 + times)
    free = min(shutil.disk_usage(places.MEMORY.parent).free, available())
    if needed > free:
        raise SystemExit(f"set {planned.name} needs {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} are free")


def clean(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def fresh() -> None:
    """An empty destination, and an empty scratch that others than root may enter."""
    clean(places.DESTINATIONS)
    clean(places.SCRATCH)
    places.SCRATCH.chmod(0o755)


@contextlib.contextmanager
def group_of(setting: Setting) -> Iterator[Cgroup]:
    """A run's control group, in which connections are capped if they are to be."""
    with Cgroup() as group, contextlib.ExitStack() as stack:
        if setting.per_connection_mbit is not None:
            stack.enter_context(PerConnectionCap(group.path, setting.per_connection_mbit))
        yield group


def one(contender: Contender, blank: Record, settings: Settings, link: Link, source: Dataset,
        reserve: Reserve) -> Record:
    """One timed transfer into fresh memory, then its check."""
    fresh()
    reserve.fill()
    setting = settings.setting
    try:
        with group_of(setting) as group:
            trial = Trial(setting, link, group, source, places.DESTINATIONS, places.SCRATCH)
            contender.prepare(trial)
            with quiet(), reserve.giving():
                measured = measure(trial, contender.commands(trial), settings.timeout_s)
            rate, notes = contender.rate_bps(trial, measured), dict(contender.notes(trial))
        checked = ""
        if contender.moves_files:
            checked = "content" if blank.repeat == 0 else "size"
            if wrong := difference(source.root, contender.landing(trial), content=blank.repeat == 0):
                raise CommandFailed(f"the copy is wrong: {wrong}")
        return replace(blank, ok=True, seconds=measured.seconds, rate_bps=rate, notes=notes, verified=checked,
                       cpu_seconds=measured.cpu_seconds)
    except (CommandFailed, OSError, ValueError, KeyError) as failure:
        return blank.failed(failure)


def run_all(settings: Settings, contenders: Sequence[Contender]) -> bool:
    """Measures what is not yet in the results file. True when nothing failed."""
    there = able(contenders)
    versions = {contender.name: contender.version() for contender in there}
    set_aside_if_outdated(settings.results, settings.setting.name, versions)
    # How long each takes is not foretold: they count alike.
    rotation = Rotation(settings.results, len(settings.sets) * settings.repeats * len(there), settings.budget_min)
    print(f"{settings.setting.title}; sets {settings.sets}, {settings.repeats} repeats, seed {settings.seed}, "
          f"{len(there)} contenders; results go to {settings.results}")
    with rotation.going(), alone(), memory(), Link(settings.setting.rate_mbit) as link:
        for name in settings.sets:
            shutil.rmtree(places.SOURCES, ignore_errors=True)
            planned, times = plan(name, settings.seed, settings.scale), settings.setting.times.get(name, 1)
            room_for(planned, times)
            source = repeated(generate(planned, places.SOURCES), times)
            print(f"set {name}: {source.files} files, {source.size / 1e9:.3f} GB")
            with Reserve(source.size) as reserve:
                for repeat, mover in ((i, mover) for i in range(settings.repeats) for mover in rotated(there, i)):
                    blank = mover.blank(settings.setting.name, name, repeat, settings.seed, versions[mover.name],
                                        source.files, source.size, settings.scale)
                    rotation.take(blank, 1.0, partial(one, mover, blank, settings, link, source, reserve))
    return rotation.good
