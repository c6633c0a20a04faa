"""The rotation over a grid: every mover once on every link, then again from another start, until all were measured n times."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.grid.case import Case
from lab.grid.engine import Engine
from lab.grid.policies import explored, trained
from lab.ground import places
from lab.ground.noise import Times, noise
from lab.ground.quiet import quiet
from lab.ground.reserve import Reserve
from lab.ground.results import Record, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.ground.shell import CommandFailed
from lab.ground.stats import rotated
from lab.ground.watch import GroupPeak
from lab.links.background import PORT
from lab.links.built import Built
from lab.movers.runner import alone, clean, fresh, memory
from lab.rivals.base import Contender, able
from lab.runs.datasets import Dataset, generate, repeated
from lab.runs.first_byte import FirstByte
from lab.runs.sampler import Sampler, others, without
from lab.runs.trial import Change, Command, Measured, Trial
from lab.runs.verify import difference, wrong

# A command that is told to stop may take so long, and exits with one of these.
LEAVING_S = 30.0
LEFT = (0, 130, -signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGTERM, 143)
SEED = 1
NOTHING = Dataset("memory", places.SOURCES, 0, 0)


@dataclass(frozen=True)
class Cell:
    """One mover on one link."""

    case: Case
    contender: Contender


@dataclass(frozen=True)
class Settings:
    """How a grid is measured."""

    shard: str
    repeats: int
    results: Path
    # Minutes after which no run begins; none if absent.
    budget_min: float | None = None


@dataclass
class Running:
    """A command that was started, and when it is to be told to leave."""

    process: subprocess.Popen[bytes]
    leaves_s: float
    told: bool = False


def drive(trial: Trial, cell: Cell, commands: Sequence[Command], changes: Sequence[Change]) -> Measured:
    """Starts each command when it joins, makes the changes when they are due, tells who is still there to leave.

    A command that copies files or ends by itself may end before; one that measures from memory may not.
    """
    case, mover = cell.case, cell.contender
    cpu, begin = trial.group.cpu_seconds(), time.monotonic()
    presence = list(case.presence) if len(case.presence) == len(commands) else [(0.0, case.seconds)] * len(commands)
    due = sorted([(change.at_s, i, change) for i, change in enumerate(changes)])
    coming = sorted((joins, i) for i, (joins, _) in enumerate(presence))
    running: dict[int, Running] = {}
    while coming or running:
        now = time.monotonic() - begin
        while due and due[0][0] <= now:
            due.pop(0)[2].make()
        while coming and coming[0][0] <= now:
            _, i = coming.pop(0)
            running[i] = Running(trial.start(commands[i], f"client{i}"), presence[i][1])
        for i, one in list(running.items()):
            if (status := one.process.poll()) is not None:
                if status not in ((*LEFT, *mover.leaves_with) if one.told else (0,)):
                    raise CommandFailed(f"status {status}: {trial.last_words(f'client{i}')}")
                if not one.told and case.data is None and not mover.by_itself:
                    raise CommandFailed(f"it ended before it was told to: {trial.last_words(f'client{i}')}")
                del running[i]
            elif not one.told and now >= one.leaves_s:
                interrupt(one.process)
                one.told = True
            elif one.told and now >= one.leaves_s + LEAVING_S:
                raise CommandFailed(f"it did not leave within {LEAVING_S:g} s: {trial.last_words(f'client{i}')}")
        time.sleep(0.02)
    return Measured(time.monotonic() - begin, trial.group.cpu_seconds() - cpu)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """`ip netns exec` becomes the program itself, so the signal reaches it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGINT)


def checked(cell: Cell, trial: Trial, measured: Measured) -> str:
    """By what the copy was judged: all of it, or what there is of it where the time was over before the end."""
    if cell.case.data is None:
        return ""
    landing = cell.contender.landing(trial)
    if measured.seconds < cell.case.seconds:
        if found := difference(trial.source.root, landing, content=True):
            raise CommandFailed(f"the copy is wrong: {found}")
        return "content"
    if isinstance(cell.contender, Engine):
        # What has its final name must be right; rivals write under final names from the start.
        if found := wrong(trial.source.root, landing):
            raise CommandFailed(f"the copy is wrong: {found}")
        return "content of what was done"
    return "unfinished"


def one(cell: Cell, blank: Record, source: Dataset, reserve: Reserve) -> Record:
    """One run on a link of its own."""
    case, contender = cell.case, cell.contender
    learned: dict[str, object] = {}
    try:
        if isinstance(contender, Engine) and contender.rule.recipe:
            path = case.scenario
            if seconds := contender.rule.explored_s or case.explored_s:
                with reserve.giving():
                    path = explored(case, contender, seconds, source)
                clean(places.DESTINATIONS)
                reserve.fill()
            contender.policy = trained(contender.rule, path, contender.version())
            learned = {"trained_for": {"link_bps": path.link_bps, "stream_bps": path.network.worker_bps,
                                       **{f"{name}_bps": own.worker_bps for name in ("read", "write")
                                          if (own := getattr(path, name)) is not None}}}
        fresh()
        with Built(case.scenario, case.queue_s) as link:
            trial = Trial(case.setting, link, link.group, source, places.DESTINATIONS, places.SCRATCH)
            contender.prepare(trial)
            commands = contender.commands(trial)
            first = FirstByte(source.root, places.DESTINATIONS) if case.first_byte else None
            with (quiet(), reserve.giving(), Sampler(link.receiver, besides=PORT, content=True) as sampler,
                  GroupPeak(link.group.path) as peak, first or contextlib.nullcontext()):
                before = Times.now()
                measured = drive(trial, cell, commands, link.changes())
                busy = noise(before, Times.now(), measured.seconds, measured.cpu_seconds)
            foreign = others(sampler.samples, sampler.begun, link.background.arrived() if link.background else [])
            samples = without(sampler.samples, foreign)
            notes: dict[str, object] = {**contender.notes(trial), **learned, "samples": samples, "noise": busy,
                                        "others": foreign, "peak_bytes": peak.bytes}
            if first is not None:
                notes["first_byte_s"] = first.seconds
            arrived = samples[-1][1]
            verified = checked(cell, trial, measured)
            whole = case.data is not None and measured.seconds < case.seconds
            bits = (source.size if whole else arrived) * 8
            if contender.by_itself:
                bits = contender.rate_bps(trial, measured) * measured.seconds
        # From memory to memory there is no size of files to divide CPU time by.
        notes.setdefault("bytes_moved", round(bits / 8))
        return replace(blank, ok=True, seconds=measured.seconds, cpu_seconds=measured.cpu_seconds, notes=notes,
                       rate_bps=bits / measured.seconds, verified=verified)
    except (CommandFailed, OSError, ValueError, KeyError) as failure:
        return blank.failed(failure)
    finally:
        clean(places.DESTINATIONS)
        reserve.fill()


@contextlib.contextmanager
def loaded(case: Case) -> Iterator[Dataset]:
    """The case's data on tmpfs."""
    clean(places.SOURCES)
    yield NOTHING if case.data is None else repeated(generate(case.data, places.SOURCES), case.times)


def run_all(cells: Sequence[Cell], settings: Settings) -> bool:
    """Measures what is not yet in the results file. True when nothing failed."""
    movers = able(list({cell.contender.name: cell.contender for cell in cells}.values()))
    versions = {mover.name: mover.version() for mover in movers}
    set_aside_if_outdated(settings.results, settings.shard, versions)
    there: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.contender.name in versions:
            there.setdefault(cell.case.name, []).append(cell)
    expected_s = settings.repeats * sum(cell.case.seconds for those in there.values() for cell in those)
    rotation = Rotation(settings.results, expected_s, settings.budget_min)
    print(f"{settings.shard}: {len(there)} links, {settings.repeats} repeats, at most {rotation.left_min:.0f} min; "
          f"results go to {settings.results}", flush=True)
    with rotation.going(), alone(), memory():
        for those in there.values():
            case = those[0].case
            with loaded(case) as source, Reserve(source.size) as reserve:
                print(f"{case.name}: {case.title}", flush=True)
                for repeat, cell in ((i, cell) for i in range(settings.repeats) for cell in rotated(those, i)):
                    blank = cell.contender.blank(settings.shard, case.name, repeat, SEED,
                                                 versions[cell.contender.name], source.files, source.size)
                    rotation.take(blank, case.seconds, partial(one, cell, blank, source, reserve))
    return rotation.good
