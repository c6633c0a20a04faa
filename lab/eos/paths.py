"""Whether the number of streams that is advised is right, and whether asking pays: a real path with a cap on each
connection, as in the EOS paper's figures 3 to 5 (an untuned buffer held one stream below the link's rate)."""

import json
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.runs.datasets import Dataset, Plan, generate
from lab.links.link import RECEIVER_ADDRESS, Link
from lab.links.percon import PerConnectionCap
from lab.ground.quiet import quiet
from lab.movers.runner import alone, clean, memory
from lab.runs.setting import Setting
from lab.ground.shell import CommandFailed, exists
from lab.runs.trial import Command, Trial

LINK_MBIT, CAP_MBIT = 1000, 120
SWEEP = (1, 2, 4, 6, 7, 8, 9, 10, 12, 16, 24, 32)
SECONDS = 5
SIZES = {"256 MB": 256_000_000, "512 MB": 512_000_000, "1 GB": 1_000_000_000}
ENDPOINT, IPERF3, GRIDFTP = 7000, 7001, 7002
ESTIMATED = "10GiB"


class Way:
    """The sender's side of a path with servers at the other end."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        binary = places.tidegate_binary()
        trial.serve(Command(trial.link.receiver, [binary, "endpoint", "--root", trial.destination, "--listen",
                                                  f"{RECEIVER_ADDRESS}:{ENDPOINT}", "--state",
                                                  trial.scratch / "endpoint"]), ENDPOINT)
        self.ticket = self.first_line()
        self.turn = 0

    def first_line(self) -> str:
        for _ in range(250):
            first, newline, _ = (self.trial.scratch / "server.out").read_text().partition("\n")
            if newline:
                return first.strip()
            time.sleep(0.02)
        raise CommandFailed(f"the endpoint printed no ticket: {self.trial.last_words('server')}")

    def run(self, *argv: object) -> str:
        """A command at the sender; what it printed."""
        self.turn += 1
        name = f"run{self.turn}"
        process = self.trial.start(Command(self.trial.link.sender, argv), name)
        if process.wait(600) != 0:
            raise CommandFailed(f"{argv[0]}: {self.trial.last_words(name)}")
        return (self.trial.scratch / f"{name}.out").read_text()

    def ours(self, *argv: object) -> Any:
        return json.loads(self.run(places.tidegate_binary(), *argv, "--json", "--state", self.trial.scratch / "client"))


def native(path: Way, streams: int) -> float:
    said = path.ours("probe", path.ticket, "--optimizer", f"fixed:{streams}", "--time", f"{SECONDS}s")
    return float(said["throughput_bps"])


def iperf3(path: Way, streams: int) -> float:
    said = json.loads(path.run("iperf3", "-c", RECEIVER_ADDRESS, "-p", IPERF3, "-P", streams, "-t", SECONDS, "-J"))
    return float(said["end"]["sum_received"]["bits_per_second"])


def gridftp(path: Way, streams: int) -> float:
    size = min(LINK_MBIT, streams * CAP_MBIT) * 1_000_000 // 8 * SECONDS
    began = time.monotonic()
    path.run("globus-url-copy", "-p", streams, "-len", size, "file:///dev/zero",
             f"ftp://{RECEIVER_ADDRESS}:{GRIDFTP}/dev/null")
    return size * 8 / (time.monotonic() - began)


def kinds(path: Way) -> dict[str, tuple[Callable[[Way, int], float], Sequence[object], str]]:
    """How each sampler is swept by hand, what it is asked with, and whereto."""
    found: dict[str, tuple[Callable[[Way, int], float], Sequence[object], str]] = {
        "native": (native, (), path.ticket)}
    receiver = path.trial.link.receiver
    if exists("iperf3"):
        path.trial.start(Command(receiver, ["iperf3", "-s", "-p", IPERF3]), "iperf3")
        found["iperf3"] = (iperf3, ("--iperf3", f"{RECEIVER_ADDRESS}:{IPERF3}"), path.ticket)
    if exists("globus-gridftp-server") and exists("globus-url-copy"):
        server = ["globus-gridftp-server", "-aa", "-allow-root", "-anonymous-user", "root", "-p", GRIDFTP]
        path.trial.start(Command(receiver, server), "gridftp")
        found["gridftp"] = (gridftp, (), f"ftp://{RECEIVER_ADDRESS}:{GRIDFTP}/dev/null")
    time.sleep(1.0)
    return found


def advised(path: Way, kind: str, more: Sequence[object], whereto: str) -> Any:
    source = "file:///dev/zero" if kind == "gridftp" else str(path.trial.scratch)
    return path.ours("estimate", source, whereto, "--bytes", ESTIMATED, "--sampler", kind, *more)


def chosen(path: Way, n: int) -> dict[str, Any]:
    """Each sampler's advice, n times, beside a sweep by hand with the same tool."""
    found: dict[str, Any] = {}
    for kind, (once, more, whereto) in kinds(path).items():
        try:
            with quiet():
                sweep = {streams: once(path, streams) for streams in SWEEP}
            answers = []
            for _ in range(n):
                with quiet():
                    answers.append(advised(path, kind, more, whereto))
        except CommandFailed as failure:
            found[kind] = {"error": str(failure)}
            continue
        best = max(sweep, key=lambda streams: sweep[streams])
        achieved = []
        for answer in answers:
            streams = int(answer["streams"])
            with quiet():
                achieved.append(sweep.get(streams) or once(path, streams))
        found[kind] = {"sweep_bps": sweep, "best": best, "best_bps": sweep[best],
                       "streams": [answer["streams"] for answer in answers],
                       "predicted_bps": [answer["throughput_bps"] for answer in answers],
                       "achieved_bps": achieved, "share": statistics.median(achieved) / sweep[best],
                       "cost_ms": [answer["cost_ms"] for answer in answers]}
    return found


def copied(path: Way, source: Dataset, *more: object) -> float:
    # The endpoint holds its root: only what is beneath goes.
    shutil.rmtree(path.trial.destination / "copied", ignore_errors=True)
    began = time.monotonic()
    path.ours("copy", f"{source.root}/", path.ticket.rstrip("/") + "/copied/", *more)
    return time.monotonic() - began


def pays(path: Way, n: int) -> list[dict[str, Any]]:
    """One stream against asking first and then copying with what was advised."""
    rows = []
    for label, size in SIZES.items():
        source = generate(Plan(f"eos-{size}", 1, (("one.bin", size),)), places.SOURCES)
        plain, asked, whole = [], [], []
        for _ in range(n):
            with quiet():
                plain.append(copied(path, source, "--optimizer", "fixed:1"))
                began = time.monotonic()
                answer = path.ours("estimate", str(source.root), path.ticket, "--bytes", f"{size}B")
                asked.append(time.monotonic() - began)
                copied(path, source, "--start", answer["streams"])
                whole.append(time.monotonic() - began)
        rows.append({"size": label, "plain_s": statistics.median(plain), "estimate_s": statistics.median(asked),
                     "optimized_s": statistics.median(whole), "streams": answer["streams"],
                     "ratio": statistics.median(plain) / statistics.median(whole), "n": n})
        shutil.rmtree(Path(source.root).parent, ignore_errors=True)
    return rows


def measured(n: int) -> dict[str, Any]:
    with alone(), memory(), Link(LINK_MBIT) as link, Cgroup() as group, PerConnectionCap(group.path, CAP_MBIT):
        for directory in (places.DESTINATIONS, places.SCRATCH):
            clean(directory)
        trial = Trial(Setting("eos", "EOS"), link, group, Dataset("none", places.SCRATCH, 0, 0), places.DESTINATIONS,
                      places.SCRATCH)
        path = Way(trial)
        found = {"link_mbit": LINK_MBIT, "cap_mbit": CAP_MBIT, "chosen": chosen(path, n)}
        print(json.dumps(found), flush=True)
        return found | {"pays": pays(path, n)}
