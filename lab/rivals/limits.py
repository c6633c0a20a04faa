"""What the machine allows: memory to memory over the link, and a copy without a network."""

import json
from collections.abc import Mapping

from lab.links.link import SENDER_ADDRESS
from lab.rivals.base import LIMIT, Contender, write_lists
from lab.runs.trial import Command, Measured, Trial
from lab.runs.verify import sizes

IPERF_PORT = 5201


class Iperf(Contender):
    """iperf3, the sender in the sender's namespace: no file is read or written."""

    level = LIMIT
    trust = "memory to memory"
    programs = ("iperf3",)
    moves_files = False
    seconds = 4

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self.name = f"iperf3 -P {streams}"

    def shorten(self) -> None:
        self.seconds = 1

    def prepare(self, trial: Trial) -> None:
        trial.serve(Command(trial.link.sender, ["iperf3", "-s", "-1"]), IPERF_PORT)

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.receiver, ["iperf3", "-c", SENDER_ADDRESS, "-R", "-J", "-t", self.seconds,
                                              "-P", self.streams])]

    def end(self, trial: Trial) -> Mapping[str, float]:
        received: Mapping[str, float] = json.loads((trial.scratch / "client0.out").read_text())["end"]["sum_received"]
        return received

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        return self.end(trial)["bits_per_second"]

    def notes(self, trial: Trial) -> Mapping[str, object]:
        return {"bytes_moved": self.end(trial)["bytes"]}


class Cp(Contender):
    """cp, two processes, each with half of the bytes: the floor under every file mover."""

    name = "cp, two processes"
    level = LIMIT
    trust = "no network"
    programs = ("cp", "xargs")

    def prepare(self, trial: Trial) -> None:
        write_lists(trial, 2, end="\0")
        # Two processes that make the same directory at once would stumble over each other.
        for directory in sorted({(trial.destination / path).parent for path in sizes(trial.source.root)}):
            directory.mkdir(parents=True, exist_ok=True)

    def commands(self, trial: Trial) -> list[Command]:
        copy = ["cp", "--parents", "--preserve=mode,timestamps", "-t", trial.destination]
        lists = sorted(trial.scratch.glob("share*"))
        return [Command(trial.link.receiver, ["xargs", "-0", "-a", path, *copy], directory=trial.source.root)
                for path in lists]
