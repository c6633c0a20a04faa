"""Many small ranges of one large file, each far enough from the next that nobody joins them."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lab.ground import places
from lab.ground.noise import Times, noise
from lab.ground.quiet import quiet
from lab.ground.results import Record, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.ground.shell import CommandFailed
from lab.ground.stats import rotated
from lab.links.built import Built
from lab.links.scenario import Scenario
from lab.movers.runner import alone, clean, fresh, memory
from lab.python.client import SEED
from lab.python.readers import FILE, Reader, told_seconds
from lab.rivals.base import able
from lab.runs.datasets import Dataset
from lab.runs.setting import Setting
from lab.runs.trial import Trial, measure

COUNT, LENGTH = 10_000, 64 << 10
# obstore joins ranges that are less than a mebibyte apart.
STEP = (1 << 20) + 2 * LENGTH
PATIENCE_S = 180.0


def make(root: Path) -> Dataset:
    """The file, which is holes but for the ranges."""
    drawn = random.Random(SEED)
    path = root / FILE
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        for i in range(COUNT):
            file.seek(i * STEP)
            file.write(drawn.randbytes(LENGTH))
    return Dataset("ranges", root, 1, COUNT * LENGTH)


def order() -> Iterator[int]:
    return iter(random.Random(SEED).sample(range(COUNT), COUNT))


def wanted(source: Dataset) -> str:
    """The hash of the ranges in the order they are asked for."""
    hasher = hashlib.blake2b()
    with open(source.root / FILE, "rb") as file:
        for i in order():
            file.seek(i * STEP)
            hasher.update(file.read(LENGTH))
    return hasher.hexdigest()


def timed(reader: Reader, path: Scenario, source: Dataset, right: str, blank: Record) -> Record:
    """One run on a link of its own."""
    try:
        fresh()
        with Built(path) as link:
            setting = Setting("ranges", path.description)
            trial = Trial(setting, link, link.group, source, places.DESTINATIONS, places.SCRATCH)
            reader.prepare(trial)
            commands = reader.reads(trial, "ranges", COUNT, LENGTH, STEP)
            with quiet():
                before = Times.now()
                measured = measure(trial, commands, PATIENCE_S)
                busy = noise(before, Times.now(), measured.seconds, measured.cpu_seconds)
            seconds = told_seconds(trial)
            with open(reader.landing(trial) / FILE, "rb") as got:
                if hashlib.file_digest(got, "blake2b").hexdigest() != right:
                    raise CommandFailed("what it read is wrong")
        return replace(blank, ok=True, seconds=seconds, rate_bps=source.size * 8 / seconds, verified="content",
                       cpu_seconds=measured.cpu_seconds, notes={**reader.notes(trial), "noise": busy})
    except (CommandFailed, OSError, ValueError, KeyError) as failure:
        return blank.failed(failure)


def run_all(shard: str, path: Scenario, readers: Sequence[Reader], repeats: int, results: Path,
            budget_min: float | None = None) -> bool:
    """Measures what is not yet in the results file. True when nothing failed."""
    there = able(readers)
    versions = {reader.name: reader.version() for reader in there}
    set_aside_if_outdated(results, shard, versions)
    rotation = Rotation(results, PATIENCE_S * repeats * len(there), budget_min)
    with rotation.going(), alone(), memory():
        clean(places.SOURCES)
        source = make(places.SOURCES)
        right = wanted(source)
        for repeat, reader in ((i, reader) for i in range(repeats) for reader in rotated(there, i)):
            blank = reader.blank(shard, "ranges", repeat, SEED, versions[reader.name], COUNT, source.size)
            rotation.take(blank, PATIENCE_S, partial(timed, reader, path, source, right, blank))
    return rotation.good
