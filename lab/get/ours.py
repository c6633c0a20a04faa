"""`tidegate get` as it comes, with fixed numbers, and under the published rules."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.runs.epochs import epochs, lasted
from lab.get.cases import CAPPED, FAR, FAR_FILL, Case
from lab.get.trial import ARIA2_ENTRY, FIXED, OURS, RULE, Fetcher, GetTrial
from lab.ground import places, program
from lab.runs.trial import Trial

# Where the oracle is looked for.
SWEEP = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24)
# Too few connections would take minutes over a whole set, at a rate that does not change: they fetch a part of it, so
# that no run is expected to last longer than so many of the best.
TIMES_AS_LONG = 2
# FastBioDL as its authors ran it: probes of 5 s, at most 15 threads.
PUBLISHED = ("--epoch", "5s", "--max-workers", 15)
SUMMARY = ("status", "verified", "duration_ms", "goodput_bps", "concurrency_mean", "optimizer", "bytes",
           "refetched_bytes", "retries", "files")


class Tidegate(Fetcher):
    """The list has an MD5 sum for every file, and all are checked before they get their names."""

    trust = "MD5 of the list and BLAKE3"
    family = OURS
    programs: Sequence[str] = ("nginx",)
    entry = ARIA2_ENTRY + "  checksum=md5={md5}\n"

    def __init__(self, name: str = "tidegate", arguments: Sequence[object] = ()) -> None:
        self.name = name
        self.arguments = arguments

    def missing(self) -> str | None:
        return super().missing() or program.missing()

    def version(self) -> str:
        return program.version()

    def argv(self, trial: GetTrial) -> list[object]:
        return [places.tidegate_binary(), "get", trial.scratch / "list", "-o", trial.destination, "--json",
                "--epochs", trial.scratch / "epochs.jsonl", *self.arguments]

    def notes(self, trial: Trial) -> Mapping[str, object]:
        summary = json.loads((trial.scratch / "client0.out").read_text())
        return {"summary": {key: summary[key] for key in SUMMARY if key in summary},
                "mean_connections": mean_connections(trial.scratch / "epochs.jsonl")}


class Fixed(Tidegate):
    """A fixed number of connections in the same engine."""

    family = FIXED

    def __init__(self, connections: int, case: Case, always: bool = False) -> None:
        super().__init__(fixed(connections), ("--fixed", connections))
        self.connections = connections
        self.always = always
        self.share = min(1.0, TIMES_AS_LONG * case.goodput_mbit(connections) / case.possible_mbit)


class Rule(Tidegate):
    """A published rule in the same engine, as published."""

    family = RULE

    def __init__(self, optimizer: str, k: float, beside: bool = False) -> None:
        self.beside = beside
        super().__init__(rule(optimizer, k), ("--optimizer", optimizer, "--utility-k", k, *PUBLISHED))


def fixed(connections: int) -> str:
    return f"tidegate --fixed {connections}"


def rule(optimizer: str, k: float) -> str:
    return f"{optimizer}, k = {k:g}"


def mean_connections(log: Path) -> float | None:
    """Mean of the network stage's workers over time, from the log of epochs."""
    lines = log.read_text().splitlines() if log.exists() else []
    run_ = epochs(json.loads(line) for line in lines)
    if not run_:
        return None
    lengths = lasted(run_)
    return sum(e.streams * length for e, length in zip(run_, lengths)) / sum(lengths)


def ours(case: Case) -> list[Fetcher]:
    """Ours for that path, in the order of the tables."""
    if case.name == "small-rtt":
        unlimited = ("--max-connections", 128)
        return [Tidegate(), Tidegate("tidegate, no ceiling", unlimited),
                Tidegate("tidegate, no ceiling, more workers", (*unlimited, "--max-workers", 128))]
    if case.is_fig6:
        best = -(-case.possible_mbit // (case.per_connection_mbit or 1))
        there = [Tidegate(), Rule("gradient", 1.02), Rule("bayesian", 1.02),
                 *(Fixed(n, case, always=True) for n in (3, 5, int(best)))]
        if case.protocol == "ftp":
            for each in there:
                each.programs = ("vsftpd",)
        return there
    rules = [Rule("gradient", 1.02)]
    if case.name == CAPPED.name or case in FAR:
        rules += [Rule("gradient", 1.01, beside=True), Rule("gradient", 1.05, beside=True),
                  Rule("bayesian", 1.02, beside=True)]
    if case in FAR:
        return [Tidegate(), *rules, *(Fixed(n, case, always=True) for n in (3, 8, FAR_FILL))]
    return [Tidegate(), *rules, *(Fixed(n, case, always=case.name == "capped" and n in (3, 8)) for n in SWEEP)]
