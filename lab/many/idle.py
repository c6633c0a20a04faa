"""A copy that finds nothing to do: source, destination and both ends on one host, and one destination for all movers,
none of which may change it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.ground.quiet import quiet
from lab.ground.results import Record, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.ground.shell import CommandFailed
from lab.ground.stats import rotated
from lab.ground.watch import GroupPeak
from lab.links.link import Link
from lab.movers.runner import alone, clean, fresh, memory
from lab.rivals.base import Contender, able
from lab.rivals.tidegate import Tidegate
from lab.runs.datasets import KB, Dataset
from lab.runs.setting import OPEN
from lab.runs.trial import Command, Trial, measure
from lab.runs.verify import difference

PATIENCE_S = 600.0


@dataclass(frozen=True)
class Shape:
    """A tree of files of 1 KB each, which are holes: nobody reads them."""

    name: str
    title: str
    files: int
    per_directory: int

    def make(self, root: Path) -> Dataset:
        for first in range(0, self.files, self.per_directory):
            directory = root / f"d{first // self.per_directory:05}"
            directory.mkdir(parents=True)
            for i in range(first, min(self.files, first + self.per_directory)):
                with open(directory / f"f{i:07}.dat", "wb") as file:
                    os.ftruncate(file.fileno(), KB)
        return Dataset(self.name, root, self.files, self.files * KB)


@dataclass(frozen=True)
class OneHost:
    """Both ends in one namespace, which reach each other over its loopback."""

    sender: str
    receiver: str


class Local(Contender):
    """One that needs no other end: from directory to directory."""

    level = "b"
    trust = "size and time"

    def landing(self, trial: Trial) -> Path:
        return trial.destination / "copied"


class RsyncLocal(Local):
    name = "rsync -a"
    programs = ("rsync",)

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender, ["rsync", "-a", f"{trial.source.root}/", f"{self.landing(trial)}/"])]


class RcloneLocal(Local):
    name = "rclone copy"
    programs = ("rclone",)

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender,
                        ["rclone", "copy", "--config", "/dev/null", trial.source.root, self.landing(trial)])]


OURS = Tidegate("a")
MOVERS: tuple[Contender, ...] = (OURS, RsyncLocal(), RcloneLocal())


def timed(mover: Contender, ends: OneHost, source: Dataset, blank: Record) -> Record:
    """One run, after which the destination must be what it was."""
    try:
        with Cgroup() as group:
            trial = Trial(OPEN, ends, group, source, places.DESTINATIONS, places.SCRATCH)
            mover.prepare(trial)
            with quiet(), GroupPeak(group.path) as peak:
                measured = measure(trial, mover.commands(trial), PATIENCE_S)
            notes = {**mover.notes(trial), "peak_bytes": peak.bytes}
        if wrong := difference(source.root, mover.landing(trial), content=False):
            raise CommandFailed(f"the copy is wrong: {wrong}")
        return replace(blank, ok=True, seconds=measured.seconds, cpu_seconds=measured.cpu_seconds, verified="size",
                       notes=notes)
    except (CommandFailed, OSError, ValueError, KeyError) as failure:
        return blank.failed(failure)


def run_all(shard: str, shapes: Sequence[Shape], repeats: int, results: Path, budget_min: float | None = None) -> bool:
    """Measures what is not yet in the results file. True when nothing failed."""
    movers = able(MOVERS)
    versions = {mover.name: mover.version() for mover in movers}
    set_aside_if_outdated(results, shard, versions)
    rotation = Rotation(results, len(shapes) * repeats * len(movers), budget_min)
    with rotation.going(), alone(), memory(), Link() as link:
        ends = OneHost(link.receiver, link.receiver)
        for shape in shapes:
            clean(places.SOURCES)
            fresh()
            print(f"{shape.name}: {shape.title}", flush=True)
            source = shape.make(places.SOURCES / "data")
            blanks = {mover.name: mover.blank(shard, shape.name, 0, 0, versions[mover.name], source.files, source.size)
                      for mover in movers}
            first = timed(OURS, ends, source, blanks[OURS.name])
            if not first.ok:
                raise SystemExit(f"{shape.name}: the first copy failed: {first.error}")
            print(f"{shape.name}: the first copy took {first.seconds:.0f} s and {first.notes['peak_bytes'] / 1e6:.0f} MB",
                  flush=True)
            for repeat, mover in ((i, mover) for i in range(repeats) for mover in rotated(movers, i)):
                blank = replace(blanks[mover.name], repeat=repeat)
                rotation.take(blank, 1.0, partial(timed, mover, ends, source, blank))
    return rotation.good
