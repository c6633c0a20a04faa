"""A path of two namespaces with a cap on each connection, and the servers at its far end: as in the EOS paper, where an
untuned buffer held one stream far below the link's rate."""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.ground.noise import Times, noise
from lab.ground.quiet import quiet
from lab.ground.shell import CommandFailed, exists
from lab.links.built import Built
from lab.links.link import RECEIVER_ADDRESS, Ends, Link
from lab.links.percon import PerConnectionCap
from lab.links.scenario import Scenario
from lab.movers.runner import clean
from lab.runs.datasets import Dataset, Plan, generate
from lab.runs.setting import Setting
from lab.runs.trial import Command, Trial
from lab.runs.verify import difference

ENDPOINT, IPERF3, GRIDFTP = 7000, 7001, 7002
COMMAND_S = 600.0
SEED = 1


@dataclass(frozen=True)
class Limits:
    """How fast the path is, and how fast one connection."""

    link_mbit: int
    cap_mbit: int

    def seconds(self, size: int, streams: int = 1) -> float:
        return size * 8 / 1e6 / min(self.link_mbit, streams * self.cap_mbit)

    def __str__(self) -> str:
        return f"{self.link_mbit} Mbit/s, {self.cap_mbit} Mbit/s a connection"


# As in the paper's figures 3 and 5 to 8: one stream has about a tenth of the link.
FAST = Limits(1000, 120)
# As in figure 4.
SLOW = Limits(100, 10)


class Way:
    """The sender's side of a path with servers at the other end."""

    def __init__(self, trial: Trial, path: Limits) -> None:
        self.trial, self.path = trial, path
        self.turn = 0
        # The state of who asked last.
        self.asking = "client"
        self.serve("endpoint", ENDPOINT, places.tidegate_binary(), "endpoint", "--root", trial.destination, "--listen",
                   f"{RECEIVER_ADDRESS}:{ENDPOINT}", "--state", trial.scratch / "endpoint-state")
        self.ticket = trial.first_line("the endpoint printed nothing", "endpoint").rstrip("/")
        if exists("iperf3"):
            self.serve("iperf3", IPERF3, "iperf3", "-s", "-p", IPERF3)
        if exists("globus-gridftp-server"):
            self.serve("gridftp", GRIDFTP, "globus-gridftp-server", "-aa", "-allow-root", "-anonymous-user", "root",
                       "-disable-usage-stats", "-p", GRIDFTP)

    def serve(self, log: str, port: int, *argv: object) -> None:
        """Starts a server at the far end and waits until it listens."""
        self.trial.serve(Command(self.trial.link.receiver, argv), port, log)

    def run(self, *argv: object) -> str:
        """A command at the sender; what it printed."""
        self.turn += 1
        name = f"run{self.turn % 8}"
        process = self.trial.start(Command(self.trial.link.sender, argv), name)
        try:
            status = process.wait(COMMAND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise CommandFailed(f"{argv[0]}: not done after {COMMAND_S:.0f} s") from None
        if status != 0:
            raise CommandFailed(f"{argv[0]}: {self.trial.last_words(name)}")
        return (self.trial.scratch / f"{name}.out").read_text()

    def ours(self, *argv: object, state: str = "client") -> Any:
        return json.loads(self.run(places.tidegate_binary(), *argv, "--json", "--state", self.trial.scratch / state))

    def unremembered(self, *argv: object) -> Any:
        """An estimate by somebody who has no history."""
        self.turn += 1
        self.asking = f"asks-{self.turn}"
        return self.ours(*argv, state=self.asking)

    def by_published(self, *argv: object) -> Any:
        """What the paper's own models say of the samples that were taken last."""
        return self.ours(*argv, "--use-history", "--model", "published", state=self.asking)

    @property
    def gridftp(self) -> str:
        return f"ftp://{RECEIVER_ADDRESS}:{GRIDFTP}"

    @property
    def iperf3(self) -> str:
        return f"{RECEIVER_ADDRESS}:{IPERF3}"

    def source(self, size: int) -> Dataset:
        """One file of that size at the sender."""
        return generate(Plan(f"eos-{size}", SEED, (("one.bin", size),)), places.SOURCES)

    def emptied(self, name: str) -> Path:
        """A fresh directory at the far end; the endpoint holds its root, so only what is beneath goes."""
        clean(self.trial.destination / name)
        return self.trial.destination / name

    @contextlib.contextmanager
    def watched(self) -> Iterator[dict[str, Any]]:
        """While it lasts nobody else measures; how busy the machine was beside it goes into what it yields."""
        with quiet():
            notes: dict[str, Any] = {}
            before, cpu, began = Times.now(), self.trial.group.cpu_seconds(), time.monotonic()
            yield notes
            notes["noise"] = noise(before, Times.now(), time.monotonic() - began, self.trial.group.cpu_seconds() - cpu)


def copied(way: Way, source: Dataset, *more: object) -> float:
    """Seconds of a copy by ours."""
    way.emptied("copied")
    began = time.monotonic()
    way.ours("copy", "--no-memory", f"{source.root}/", f"{way.ticket}/copied/", *more)
    seconds = time.monotonic() - began
    judged(source, way.trial.destination / "copied")
    return seconds


def globus(way: Way, source: Dataset, streams: int | None) -> float:
    """Seconds of a copy by GridFTP's client; without a number it uses what it uses."""
    there = way.emptied("globus")
    more: Sequence[object] = [] if streams is None else ["-p", streams]
    began = time.monotonic()
    way.run("globus-url-copy", *more, f"file://{source.root}/one.bin", f"{way.gridftp}{there}/one.bin")
    seconds = time.monotonic() - began
    judged(source, there)
    return seconds


def judged(source: Dataset, landing: Path) -> None:
    if found := difference(source.root, landing, content=True):
        raise CommandFailed(f"the copy is wrong: {found}")


def way(link: Ends, group: Cgroup, path: Limits) -> Way:
    """The sender's side of a link that is there, with the servers at its other end."""
    for directory in (places.DESTINATIONS, places.SCRATCH, places.SOURCES):
        clean(directory)
    return Way(Trial(Setting("eos", "EOS"), link, group, Dataset("none", places.SCRATCH, 0, 0), places.DESTINATIONS,
                     places.SCRATCH), path)


@contextlib.contextmanager
def site(path: Limits) -> Iterator[Way]:
    """The path, its cap and its servers, for as long as the `with` block."""
    with Link(path.link_mbit) as link, Cgroup() as group, PerConnectionCap(group.path, path.cap_mbit):
        yield way(link, group, path)


@contextlib.contextmanager
def site_on(scenario: Scenario) -> Iterator[Way]:
    """The same on the link of a scenario that nobody else uses."""
    carries = round(scenario.link.rate_bps / 1e6)
    with Built(scenario) as link:
        yield way(link, link.group, Limits(carries, min(carries, round(scenario.network.worker_bps / 1e6))))
