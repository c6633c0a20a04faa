"""What is measured of many hosts: how fast they are together, and that nothing that happens to one costs more than time."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.fleet import others, slurm
from lab.fleet.faults import FAULTS, HOST_KILLED, PAUSE_S, Fault, Happening
from lab.fleet.postgres import missing as no_database
from lab.fleet.site import SLURM, Fleet, Moved
from lab.ground import places, program
from lab.ground.quiet import quiet
from lab.ground.results import Record, load, now, set_aside_if_outdated
from lab.ground.rotation import Rotation
from lab.ground.shell import CommandFailed
from lab.runs.datasets import MB, Plan, generate
from lab.runs.verify import difference
from lab.shard import Options, Shard, named, results

NAME = "fleet"
SEED = 1
LIMIT_S = 420.0
FILE_BYTES = 8 * MB
# What of a full packet of 1500 bytes, with its Ethernet header as tbf counts it, is data.
PAYLOAD = 1448 / 1514
# A fault comes so long after all movers run.
WITHIN_S = 12.0
# Rates are judged from the tenth second on.
SETTLED_S = 10.0


@dataclass(frozen=True)
class Case:
    """So many movers on nodes of these rates, and what happens to them."""

    name: str
    title: str
    rates_mbit: tuple[int, ...]
    # Data for so long at the sum of the rates.
    load_s: float
    fault: Fault | None = None
    engine: str = SLURM

    @property
    def total_mbit(self) -> int:
        return sum(self.rates_mbit)

    @property
    def plan(self) -> Plan:
        files = math.ceil(self.total_mbit * 1e6 / 8 * PAYLOAD * self.load_s / FILE_BYTES)
        return Plan(f"{NAME}-{files}", SEED, tuple((f"d{i // 16}/f{i}", FILE_BYTES) for i in range(files)))

    @property
    def ideal_s(self) -> float:
        """The whole time if all links were full from the first moment to the last."""
        return self.plan.size * 8 / (self.total_mbit * 1e6 * PAYLOAD)


RATE_MBIT = 150
PAUSED = "mover-paused"
CASES = (
    *(Case(f"movers-{n}", f"{n} mover{'s' if n > 1 else ''} at {RATE_MBIT} Mbit/s", (RATE_MBIT,) * n, 45) for n in (1, 2, 4)),
    Case("one-slow", f"three at {RATE_MBIT} Mbit/s and one at 30", (RATE_MBIT,) * 3 + (30,), 45),
    *(Case(fault.name, fault.title, (RATE_MBIT,) * 3, 25, fault) for fault in FAULTS.values() if fault.name != PAUSED),
    # It goes on while others still move, so their links are slow.
    Case(PAUSED, FAULTS[PAUSED].title, (50,) * 3, 75, FAULTS[PAUSED]),
    *(Case(f"{engine}-{HOST_KILLED.name}", f"movers by {called}: {HOST_KILLED.title}", (RATE_MBIT,) * 3, 25, HOST_KILLED, engine)
      for engine, called in (("dask", "Dask"), ("ssh", "ssh"))),
)


def blank(case: Case, repeat: int) -> Record:
    return Record(scenario=NAME, set=case.name, contender="tidegate", level="", repeat=repeat, seed=SEED + repeat, scale=1.0,
                  ok=False, version=program.version(), time=now())


def make(case: Case, repeat: int) -> Record:
    """One run, whatever it comes to."""
    record = blank(case, repeat)
    source = generate(case.plan, places.SOURCES)
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-fleet-", dir="/dev/shm") as held, \
                Fleet(case.rates_mbit, Path(held), engine=case.engine) as fleet, quiet():
            happening = None
            if case.fault is not None:
                happening = Happening(case.fault, fleet, len(case.rates_mbit), record.seed, WITHIN_S)
            moved = fleet.spread(source.root, len(case.rates_mbit), LIMIT_S)
            # A fault that is not over by then tells nothing of what comes after it.
            error = judged(source.root, fleet, moved) or (happening and happening.error)
            if happening is not None:
                # What it began to do is undone.
                happening.join(PAUSE_S)
            notes = {"ideal_s": case.ideal_s, "samples": moved.samples, "summary": moved.summary}
            return replace(record, ok=not error, error=error or "", files=source.files, bytes=source.size,
                           seconds=moved.seconds, rate_bps=source.size * 8 / moved.seconds, verified="content", notes=notes)
    except (CommandFailed, OSError) as failure:
        return record.failed(failure)


def judged(source: Path, fleet: Fleet, moved: Moved) -> str | None:
    """What is wrong with the run, if anything."""
    if moved.status != 0:
        return f"status {moved.status}: {moved.said[-300:]}; {fleet.last_words('service')[-200:]}"
    landing = fleet.destination / "copy"
    # Unfinished files of a mover that died are left for `tidegate clean`.
    leftovers = landing / ".tidegate"
    if leftovers.exists():
        leftovers.rename(fleet.scratch / "leftovers")
    if found := difference(source, landing, content=True):
        return f"the copy is wrong: {found}"
    files = moved.summary["files"]
    return None if files["ok"] == files["total"] else f"the summary says {files}"


def measure(cases: Sequence[Case], options: Options) -> bool:
    if reason := program.missing() or slurm.missing() or others.missing() or no_database():
        print(f"left out: {reason}")
        return False
    wanted, = named("case", options.only, [case.name for case in cases])
    chosen = [case for case in cases if case.name in wanted]
    known = results(NAME)
    set_aside_if_outdated(known, NAME, {"tidegate": program.version()})
    repeats = range(options.repeats or 1)
    expected = sum(case.load_s + 40 for case in chosen) * len(repeats)
    rotation = Rotation(known, expected, options.budget_min)
    with rotation.going():
        for repeat in repeats:
            for case in chosen:
                rotation.take(blank(case, repeat), case.load_s + 40, partial(make, case, repeat))
    return rotation.good


def counted() -> tuple[int, int]:
    there = {record.set for record in load(results(NAME)) if record.ok}
    return len(there), len(CASES)


SHARDS = (Shard(NAME, "many hosts, one data set: movers by Slurm, Dask and ssh, and faults", 18, partial(measure, CASES), counted),)
