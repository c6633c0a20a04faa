"""Tidegate at its three levels of trust, no tuning flags."""

import json
from collections.abc import Mapping
from pathlib import Path

from lab.links.link import RECEIVER_ADDRESS
from lab.ground import program
from lab.ground.places import REPOSITORY, tidegate_binary
from lab.rivals.base import Contender
from lab.ground.shell import CommandFailed, run
from lab.runs.trial import Command, Measured, Trial

PORT = 7000
LEVELS = {
    "a": ("TLS 1.3, BLAKE3 end to end", (), ()),
    "b": ("BLAKE3 end to end, clear", ("--data-plane", "clear"), ()),
    "c": ("crc32c of every block, clear", ("--data-plane", "clear"), ("--verify", "block")),
}


class Tidegate(Contender):
    """Pushes from the sender's namespace to an endpoint in the receiver's."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.name = f"tidegate ({level})"
        self.trust, self.both_ends, self.client = LEVELS[level]

    def program(self) -> Path:
        return tidegate_binary()

    def missing(self) -> str | None:
        return program.missing(self.program())

    def version(self) -> str:
        return program.version(self.program())

    def prepare(self, trial: Trial) -> None:
        trial.serve(Command(trial.link.receiver,
                            [self.program(), "endpoint", "--root", trial.destination,
                             "--listen", f"{RECEIVER_ADDRESS}:{PORT}", "--state", trial.scratch / "endpoint",
                             *self.both_ends]), PORT)

    def ticket(self, trial: Trial) -> str:
        return trial.first_line("the endpoint printed no ticket")

    def commands(self, trial: Trial) -> list[Command]:
        target = self.ticket(trial).rstrip("/") + "/copied/"
        return [Command(trial.link.sender,
                        [self.program(), "copy", f"{trial.source.root}/", target, "--json",
                         "--state", trial.scratch / "client", *self.both_ends, *self.client])]

    def landing(self, trial: Trial) -> Path:
        return trial.destination / "copied"

    def summary(self, trial: Trial) -> Mapping[str, object]:
        said: Mapping[str, object] = json.loads((trial.scratch / "client0.out").read_text())
        return said

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        summary = self.summary(trial)
        if not summary.get("verified"):
            raise CommandFailed(f"it says it did not verify: {summary}")
        return super().rate_bps(trial, measured)

    def notes(self, trial: Trial) -> Mapping[str, object]:
        keys = ("status", "verified", "duration_ms", "goodput_bps", "concurrency_mean", "resent_bytes", "optimizer")
        summary = self.summary(trial)
        commit = run(["git", "-C", REPOSITORY, "rev-parse", "--short", "HEAD"], check=False).strip()
        return {"commit": commit, **{key: summary[key] for key in keys if key in summary}}


class Earlier(Tidegate):
    """An earlier build, beside the one that is measured: whether a change costs anything."""

    def __init__(self, level: str, path: Path) -> None:
        super().__init__(level)
        self.path = path
        self.name = f"{path.parent.name or path.name} ({level})"

    def program(self) -> Path:
        return self.path


class Memory(Tidegate):
    """From memory to memory over so many streams, in clear with crc32c: what iperf3 of the same number is held against."""

    moves_files = False
    seconds = 4

    def __init__(self, streams: int) -> None:
        super().__init__("c")
        self.streams = streams
        self.name = f"tidegate probe, {streams} stream{'' if streams == 1 else 's'}"

    def shorten(self) -> None:
        # Its rate is that of whole epochs.
        self.seconds = 2

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender,
                        [self.program(), "probe", self.ticket(trial), "--json", "--time", f"{self.seconds}s",
                         "--optimizer", f"fixed:{self.streams}", "--state", trial.scratch / "client",
                         *self.both_ends, *self.client])]

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        return float(str(self.summary(trial)["throughput_bps"]))

    def notes(self, trial: Trial) -> Mapping[str, object]:
        return {"bytes_moved": self.summary(trial)["bytes"]}
