"""The rotation: every downloader once on a set, then those that matter again from another start, n times.

Settings that are searched by hand (how many connections, how many files at once) run once each; the repeats are for
the best of them and for those that a table needs. What is in the results file is not measured again.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lab.ground import places
from lab.get import ftp
from lab.get.cases import Case
from lab.get.figures import window
from lab.ground.noise import Times, noise
from lab.get.ours import ours
from lab.get.rivals import rivals
from lab.runs.sampler import Sampler
from lab.get.sets import Listed, listed, wrong
from lab.get.trial import ARIA2, FIXED, RCLONE, SEARCHED, Fetcher, GetTrial
from lab.links.link import Link
from lab.ground.quiet import quiet
from lab.ground.results import Record, load, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.movers.runner import alone, clean, fresh, group_of, memory
from lab.rivals.base import able
from lab.ground.shell import CommandFailed
from lab.ground.stats import rotated
from lab.runs.trial import measure

RESULTS = places.BUILD / "lab" / "get.jsonl"
SEED = 1
# Of the settings of a family, so many best ones of the first repeat are measured again.
FINALISTS = {FIXED: 3}
FINALISTS_OTHERWISE = 2
# Fewer connections that are as good as the best, but for noise: the oracle may be among them.
NEARLY = 0.985
# Those that no bar is about are repeated so often at most.
BESIDE = 3
# To start, to check and to clean up.
AROUND_S = 8.0


@dataclass(frozen=True)
class Settings:
    repeats: int
    # No run begins after so many minutes; the same command goes on later.
    budget_min: float | None = None
    lean: bool = False


def contenders(case: Case) -> list[Fetcher]:
    if case.name == "archive":
        from lab.get.archive import archive
        return archive()
    return [*ours(case), *rivals(case)]


def expected_s(contender: Fetcher, case: Case, bytes_: float) -> float:
    return bytes_ * contender.share * 8e-6 / contender.expected_mbit(case) + AROUND_S


def finalists(family: Iterable[Fetcher], first: dict[str, Record]) -> set[str]:
    """Which settings of one family go on after their first repeat."""
    ran = sorted((c for c in family if c.name in first and first[c.name].ok), key=lambda c: -first[c.name].rate_bps)
    if not ran:
        return set()
    chosen = {c.name for c in ran[:FINALISTS.get(ran[0].family, FINALISTS_OTHERWISE)]}
    if ran[0].family == FIXED:
        near = [c for c in ran if first[c.name].rate_bps >= NEARLY * first[ran[0].name].rate_bps]
        chosen.add(min(near, key=lambda c: c.connections or 0).name)
    return chosen


def due(able: Sequence[Fetcher], repeat: int, records: Iterable[Record]) -> list[Fetcher]:
    """Who runs in that repeat, given the records of this case and set."""
    if repeat == 0:
        return list(able)
    first = {record.contender: record for record in records if record.repeat == 0}
    going_on = {name for family in SEARCHED for name in finalists([c for c in able if c.family == family], first)}
    return [c for c in able if c.name in going_on or (c.always and (repeat < BESIDE or not c.beside))]


def one(contender: Fetcher, blank: Record, case: Case, link: Link, source: Listed, timeout_s: float) -> Record:
    """One timed download into fresh memory, then the MD5 sum of every file."""
    fresh()
    notes: dict[str, object] = {}
    try:
        with group_of(case) as group:
            trial = GetTrial(case, link, group, source.dataset, places.DESTINATIONS, places.SCRATCH, source.files)
            contender.prepare(trial)
            with quiet():
                before = Times.now()
                with Sampler(link.receiver, ftp.DATA if case.protocol == "ftp" else contender.ports) as sampler:
                    notes["samples"] = sampler.samples
                    measured = measure(trial, contender.commands(trial), timeout_s)
                notes["noise"] = noise(before, Times.now(), measured.seconds, measured.cpu_seconds)
            notes |= contender.notes(trial)
        files = contender.fetched(trial)
        if fault := wrong(files, contender.landing(trial)):
            raise CommandFailed(f"the files are wrong: {fault}")
        size = sum(file.size for file in files)
        notes["window_s"] = window(sampler.samples)
        return replace(blank, ok=True, files=len(files), bytes=size, seconds=measured.seconds,
                       rate_bps=size * 8 / measured.seconds, notes=notes, verified="md5",
                       cpu_seconds=measured.cpu_seconds)
    except (CommandFailed, OSError, ValueError, KeyError) as failure:
        return blank.failed(failure, notes=notes)
    finally:
        clean(places.DESTINATIONS)


def chosen(there: Sequence[Fetcher], only: Sequence[str] | None) -> list[Fetcher]:
    """Those whose names hold one of the words or whose family is one; a word in full is that name alone."""
    if not only:
        return list(there)
    return [c for c in there if any(w == c.name or w == c.family or (w in c.name and w not in {a.name for a in there})
                                    for w in only)]


def ready(case: Case, only: Sequence[str] | None, settings: Settings) -> list[Fetcher]:
    there = able(chosen(contenders(case), only))
    return lean(case, there) if settings.lean else there


# Where to look for the oracle, and how many settings of aria2 and rclone to try, when time is short.
LEAN_SWEEP = {"capped": (3, 8, 10, 12, 14, 16), "link-only": (1, 2, 4, 8, 12), "busy": (6, 8, 10)}
LEAN_SETTINGS = 3


def lean(case: Case, able: Sequence[Fetcher]) -> list[Fetcher]:
    """Those that bars are about, and the likeliest settings only."""
    sweep, tried, kept = LEAN_SWEEP.get(case.name), Counter[str](), []
    for contender in able:
        if contender.beside or (contender.family == FIXED and sweep and contender.connections not in sweep):
            continue
        tried[contender.family] += 1
        if contender.family in (ARIA2, RCLONE) and tried[contender.family] > LEAN_SETTINGS:
            continue
        kept.append(contender)
    return kept


def run_all(cases: Sequence[Case], sets: Sequence[str] | None, only: Sequence[str] | None, settings: Settings) -> bool:
    """Measures what is not yet in the results file. True when none of ours failed."""
    # Paths that share a set come one after the other, since making one takes a while.
    names = list(dict.fromkeys(name for case in cases for name in case.sets if sets is None or name in sets))
    there = {case.name: ready(case, only, settings) for case in cases}
    jobs = [(case, name, there[case.name]) for name in names for case in cases if name in case.sets]
    for case in cases:
        versions = {c.name: c.version() for c in there[case.name]}
        set_aside_if_outdated(RESULTS, case.name, versions)
    rotation = Rotation(RESULTS, sum(remaining_s(case, name, those, settings) for case, name, those in jobs),
                        settings.budget_min)
    print(f"{len(jobs)} sets on paths, {settings.repeats} repeats, seed {SEED}: about {rotation.left_min:.0f} min; "
          f"results go to {RESULTS}", flush=True)
    with rotation.going(), alone(), memory():
        # Once round everything, then again: whenever it is stopped, every set has been looked at alike.
        for repeat in range(settings.repeats):
            for case, name, those in jobs:
                one_round(case, name, those, repeat, rotation)
    return rotation.good


def settled(case: Case, name: str) -> list[Record]:
    """What need not be measured again: a rival's failure is an outcome too."""
    return [r for r in load(RESULTS) if (r.scenario, r.set, r.seed, r.scale) == (case.name, name, SEED, 1.0)
            and (r.ok or not is_ours(r.contender))]


def is_ours(contender: str) -> bool:
    return contender.startswith("tidegate")


def remaining_s(case: Case, name: str, able: Sequence[Fetcher], settings: Settings) -> float:
    """An estimate: which settings will be the best is not known before the first repeat."""
    records = settled(case, name)
    known = {(r.contender, r.repeat) for r in records}
    bytes_ = case.possible_mbit * 1e6 / 8 * (case.seconds or 4.0)
    total = 0.0
    for repeat in range(settings.repeats):
        again = due(able, repeat, records)
        total += sum(expected_s(c, case, bytes_) for c in again if (c.name, repeat) not in known)
        if repeat > 0 and not records:
            # Not known yet which; the best take as long as is possible.
            best = bytes_ * 8e-6 / case.possible_mbit + AROUND_S
            total += best * sum(FINALISTS.get(family, FINALISTS_OTHERWISE) for family in {c.family for c in able}
                                if family in SEARCHED)
    return total


def one_round(case: Case, name: str, able: Sequence[Fetcher], repeat: int, rotation: Rotation) -> None:
    """Everyone who is due once on one set."""
    records = settled(case, name)
    known = {r.contender for r in records if r.repeat == repeat}
    missing = [c for c in rotated(due(able, repeat, records), repeat * 3) if c.name not in known]
    if not missing:
        return
    rotation.check()
    source = prepared(case, name)
    print(f"{case.title}; set {name}: {len(source.files)} files, {source.size / 1e9:.3f} GB", flush=True)
    with case.link() as link:
        for contender in missing:
            part = source.part(contender.share)
            blank = contender.blank(case.name, name, repeat, SEED, contender.version(), len(part.files), part.size)
            expected = expected_s(contender, case, source.size)
            rotation.take(blank, expected, partial(one, contender, blank, case, link, part, 60 + 4 * expected),
                          matters=is_ours(contender.name))


def prepared(case: Case, name: str) -> Listed:
    if case.name == "archive":
        from lab.get.archive import runs
        return runs(SEED)
    return listed(name, case, SEED)
