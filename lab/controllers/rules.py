"""What each control rule makes of a path whose streams are capped, and the demo: measured in one rotation."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from lab.ground import places
from lab.runs.datasets import Dataset
from lab.links.link import Link
from lab.ground.results import Record, append, load, set_aside_if_outdated
from lab.rivals.tidegate import Tidegate
from lab.movers.runner import Progress, Settings, alone, memory, one
from lab.runs.setting import Setting
from lab.ground.shell import CommandFailed
from lab.ground.stats import rotated
from lab.runs.trial import Command, Measured, Trial

RESULTS = places.BUILD / "lab" / "controllers.jsonl"
PAGE = places.REPORT.with_name("controllers.md")

MAX_WORKERS = 32
EPOCHS = 60
FIXED = (1, 4, 8, 10, 12, 16, 20, 32)
DEMO = "demo"

CAPPED = Setting("controllers", "2 Gbit/s link, 200 Mbit/s a connection, memory to memory",
                  rate_mbit=2000, per_connection_mbit=200)
# The demo shapes its own path on the loopback.
UNSHAPED = Setting("controllers", "the demo's own path")
NO_FILES = Dataset("memory", places.SOURCES, 0, 0)


@dataclass(frozen=True)
class Rule:
    """A control rule as the command line names it, and the length of its epochs."""

    name: str
    epoch_s: float


# The three that are published were published with epochs of these lengths.
RULES = (Rule("auto", 1), Rule("gradient", 3), Rule("falcon", 3), Rule("aimd", 1))


class Measurement(Tidegate):
    """A run of the program that moves no data set of ours and logs its epochs."""

    level = "b"
    moves_files = False
    setting: Setting

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__("b")
        self.name = name
        self.seconds = seconds

    def log(self, trial: Trial) -> list[Mapping[str, object]]:
        lines = (trial.scratch / "epochs.jsonl").read_text().splitlines()
        if not lines:
            raise CommandFailed("it logged no epoch")
        return [json.loads(line) for line in lines]


class Probe(Measurement):
    """`tidegate probe` under one rule."""

    setting = CAPPED

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender, [*self.shown(self.ticket(trial)), "--epochs", trial.scratch / "epochs.jsonl",
                                            "--state", trial.scratch / "client"])]

    def shown(self, destination: str) -> list[object]:
        return [places.tidegate_binary(), "probe", destination, "--time", f"{self.seconds:g}s", "--json",
                "--data-plane", "clear", "--optimizer", self.name, "--max-workers", MAX_WORKERS]

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        return float(str(self.summary(trial)["throughput_bps"]))

    def notes(self, trial: Trial) -> Mapping[str, object]:
        summary = self.summary(trial)
        moved = self.rate_bps(trial, Measured(0, 0)) * float(str(summary["duration_ms"])) / 8000
        return {"bytes_moved": int(moved), "seconds": self.seconds, "epochs": self.log(trial)}


class Demo(Measurement):
    """`tidegate demo`, in memory."""

    setting = UNSHAPED

    def prepare(self, trial: Trial) -> None:
        """It brings its own endpoint."""

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender,
                        [places.tidegate_binary(), "demo", "--json", "--epochs", trial.scratch / "epochs.jsonl",
                         "--directory", trial.destination, "--state", trial.scratch / "client"])]

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        summary = self.summary(trial)
        if summary["verified"] is not True:
            raise CommandFailed(f"it says it did not verify: {summary}")
        return float(str(summary["goodput_bps"]))

    def notes(self, trial: Trial) -> Mapping[str, object]:
        return {"bytes_moved": self.summary(trial)["bytes"], "verified": True, "epochs": self.log(trial)}


def measurements(fixed_s: float) -> list[Measurement]:
    """All of them, in the order of the tables."""
    # Epochs start late by a few milliseconds each, and the last one is cut short by the end.
    rules = [Probe(rule.name, EPOCHS * rule.epoch_s * 1.02 + rule.epoch_s) for rule in RULES]
    return [*rules, *(Probe(f"fixed:{n}", fixed_s) for n in FIXED), Demo(DEMO, 0)]


def run_all(chosen: Sequence[Measurement], repeats: int, results: Path) -> bool:
    """Measures what is not yet in the results file. True when nothing failed."""
    if reason := chosen[0].missing():
        raise SystemExit(reason)
    version = chosen[0].version()
    set_aside_if_outdated(results, CAPPED.name, {each.name: version for each in measurements(0)})
    known = {record.key for record in load(results) if record.ok}
    progress = Progress(total=len(chosen) * repeats, began=time.monotonic())
    print(f"{CAPPED.title}; {repeats} repeats of {len(chosen)}; results go to {results}", flush=True)
    good = True
    try:
        with alone(), memory(), Link(CAPPED.rate_mbit) as link:
            for repeat in range(repeats):
                for each in rotated(chosen, repeat * len(chosen) // max(repeats, 1)):
                    kind = "demo" if each.name == DEMO else "probe"
                    blank = Record(scenario=CAPPED.name, set=kind, contender=each.name, level=each.level,
                                   repeat=repeat, seed=1, scale=1.0, ok=False, version=version,
                                   time=datetime.now(timezone.utc).isoformat(timespec="seconds"))
                    if blank.key in known:
                        progress.total -= 1
                        continue
                    settings = Settings(each.setting, kind, repeats, 1, results,
                                        timeout_s=60 + 1.5 * each.seconds + (120 if kind == "demo" else 0))
                    record = one(each, blank, settings, link, NO_FILES)
                    append(results, record)
                    progress.line(record)
                    good = good and record.ok
    except BaseException:
        print(f"stopped; the same command goes on from {results}", flush=True)
        raise
    return good
