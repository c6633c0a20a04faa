"""Single questions to `tidegate get`: a list of a million URLs, one huge file with a kill in between, and how many
requests a thousand accessions take."""

import contextlib
import json
import os
import random
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.ground.results import now
from lab.runs.datasets import Dataset
from lab.get import archive, server
from lab.get.cases import Case
from lab.get.ours import Tidegate
from lab.runs.sampler import Sampler
from lab.get.sets import File, md5
from lab.get.trial import GetTrial
from lab.ground.watch import Watched, watch
from lab.links.link import Link
from lab.movers.runner import alone, clean, memory
from lab.ground.shell import CommandFailed
from lab.runs.trial import Command

RESULTS = places.BUILD / "lab" / "get-probes.json"
# A disk, since twenty gigabytes are more than there is memory for.
ON_DISK = places.BUILD / "lab" / "huge"
MILLION = 1_000_000
# Memory has long settled by then, whether the list is done or not.
MILLION_S = 180.0
HUGE, HUGE_S = 20_000_000_000, 1800.0
ACCESSIONS = 1000
OPEN = Case("open", "no limit on the link")
STAMP_EVERY = 1 << 20


@contextlib.contextmanager
def arena(destination: Path = places.DESTINATIONS) -> Iterator[GetTrial]:
    """An open path."""
    with alone(), memory(), Link() as link, Cgroup() as group:
        for directory in (places.SOURCES, destination, places.SCRATCH, places.SCRATCH / "home"):
            clean(directory)
        try:
            yield GetTrial(OPEN, link, group, Dataset("probe", places.SOURCES, 0, 0), destination, places.SCRATCH)
        finally:
            shutil.rmtree(destination, ignore_errors=True)


def run(trial: GetTrial, log: str, timeout_s: float, kill_at: int | None = None) -> tuple[Watched, int]:
    """Fetches the list; killed as by a power cut when so many bytes have arrived. Returns also what arrived."""
    contender = Tidegate()
    command = Command(trial.link.receiver, contender.argv(trial), trial.scratch, contender.environment(trial))
    with Sampler(trial.link.receiver, (server.PORT,)) as sampler:
        process = trial.start(command, log)
        if kill_at is None:
            watched = watch(process, timeout_s)
        else:
            watched = watch(process, timeout_s, lambda: sampler.samples[-1][1] >= kill_at, signal.SIGKILL)
    return watched, sampler.samples[-1][1]


def million() -> Mapping[str, object]:
    """Peak memory over a list of so many tiny files, beside that over a thousandth of it."""
    with arena() as trial:
        server.start(trial, None)
        outcome: dict[str, object] = {"kind": "tiny", "urls": MILLION}
        for name, lines in (("few", MILLION // 1000), ("all", MILLION)):
            clean(trial.destination)
            with open(trial.scratch / "list", "w") as out:
                for i in range(lines):
                    out.write(f"{server.BASE}/tiny/{i:07}\n  out={i // 1000:04}/{i:07}\n")
            watched, _ = run(trial, name, MILLION_S)
            if watched.peak_bytes == 0 or not (watched.stopped or watched.status == 0):
                raise CommandFailed(f"status {watched.status}: {trial.last_words(name)}")
            outcome[name] = {"urls": lines, "peak_bytes": watched.peak_bytes, "seconds": round(watched.seconds, 1),
                             "status": watched.status, "stopped": watched.stopped, "files": landed(trial.destination),
                             "said": trial.last_words(name)[-200:]}
    return outcome


def landed(directory: Path) -> int:
    """Files of the list that are there: those in its directories of four digits."""
    return sum(len(files) for part in directory.iterdir() if part.name.isdigit() for _, _, files in os.walk(part))


def sparse(path: Path, size: int) -> None:
    """Zeros with a random stamp in each mebibyte: any part in a wrong place changes the sum, and memory holds one page
    of each."""
    rng = random.Random(1)
    with open(path, "wb") as file:
        file.truncate(size)
        for at in range(0, size - 16, STAMP_EVERY):
            file.seek(at)
            file.write(rng.randbytes(16))


def sent(log: Path) -> int:
    """Bytes of bodies that nginx handed to the kernel."""
    return sum(int(line) for line in log.read_text().split())


def huge() -> Mapping[str, object]:
    """One file: a small one first to compare memory with, then the whole, killed half way and begun again."""
    with arena(ON_DISK) as trial:
        server.start(trial, None, log=True)
        outcome: dict[str, object] = {"bytes": HUGE}
        accesses = trial.scratch / "access.log"
        for name, bytes_ in (("small", HUGE // 200), ("huge", HUGE)):
            path = trial.source.root / f"{name}.bin"
            sparse(path, bytes_)
            file = File(path.name, bytes_, md5(path))
            Tidegate().write(replace(trial, files=(file,)))
            before = sent(accesses)
            parts = []
            for attempt, kill_at in ((0, bytes_ // 2), (1, None)) if name == "huge" else ((0, None),):
                watched, arrived = run(trial, f"{name}{attempt}", HUGE_S, kill_at)
                parts.append({"status": watched.status, "seconds": round(watched.seconds, 1), "arrived_bytes": arrived,
                              "peak_bytes": watched.peak_bytes})
                if kill_at is not None and (trial.destination / file.path).exists():
                    raise CommandFailed("the final name was there when only half had arrived")
            there = trial.destination / file.path
            if not there.is_file() or there.stat().st_size != bytes_ or md5(there) != file.md5:
                raise CommandFailed(f"{file.path} is not what it should be: {trial.last_words(name + str(len(parts) - 1))}")
            there.unlink()
            outcome[name] = {"bytes": bytes_, "runs": parts, "refetched_bytes": sent(accesses) - before - bytes_}
    return outcome


def resolve() -> Mapping[str, object]:
    """Accessions resolved against the stand-in archive: how many requests it had, and how long it took."""
    with arena() as empty:
        root = places.SOURCES / "archive"
        accessions = archive.make(root, ACCESSIONS, 0.001, 1)
        trial = replace(empty, source=Dataset("archive", root, 0, 0))
        standin = archive.Standin(trial, root, bare=False)
        named = trial.scratch / "accessions"
        named.write_text("".join(accession + "\n" for accession in accessions))
        contender = Tidegate()
        argv = [*contender.argv(trial)[:2], named, "--dry-run", "--json", *archive.told(trial)]
        command = Command(trial.link.receiver, argv, trial.scratch, contender.environment(trial))
        watched = watch(trial.start(command, "client0"), 300)
        if watched.status != 0:
            raise CommandFailed(f"status {watched.status}: {trial.last_words('client0')}")
        return {"accessions": ACCESSIONS, "requests": standin.requests(), "seconds": round(watched.seconds, 2),
                "peak_bytes": watched.peak_bytes}


def remember(name: str, outcome: Mapping[str, object], results: Path = RESULTS) -> None:
    """Keeps the outcome of a probe with the program it is of."""
    results.parent.mkdir(parents=True, exist_ok=True)
    known = recalled(results)
    about = {"version": Tidegate().version(), "time": now()}
    results.write_text(json.dumps({**known, name: {**outcome, **about}}, indent=1) + "\n")


def recalled(results: Path = RESULTS) -> dict[str, Mapping[str, object]]:
    return json.loads(results.read_text()) if results.exists() else {}
