"""Is a built link what its scenario says? Measured with ping and iperf3 before any result counts.

Every finding is what was looked at, what is expected, what was measured and whether that is close enough. How close
is said in `BOUNDS`: a link must carry its rate less headers, though congestion control may leave a little of it; a
paced stream is exact; Mathis' formula for a stream under loss is a rule of thumb; a count of lost packets scatters
as a binomial one does.
"""

import json
import math
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.ground import places
from lab.ground.quiet import quiet
from lab.ground.shell import CommandFailed, exists
from lab.links.background import levels, moved
from lab.links.built import LONGEST_S, RELAY, SEED, Built, fitting
from lab.links.link import RECEIVER_ADDRESS
from lab.links.scenario import not_built, read
from lab.links.schema import Scenario
from lab.links.tables import ScenarioError
from lab.links.units import shown
from lab.runs.datasets import Dataset
from lab.runs.setting import Setting
from lab.runs.trial import Command, Trial, measure

PROGRAMS, PACKAGES = ("iperf3", "ping"), ("iperf3", "iputils-ping")
PORT = 5201
# What a full frame carries of a rate that counts Ethernet headers (tbf) or IP packets only (the relay).
FRAME, PACKET = 1448 / 1514, 1448 / 1500
# Measured by expected, lowest and highest.
BOUNDS = {"link": (0.94, 1.02), "stream": (0.94, 1.02), "lossy stream": (0.5, 1.6), "lossy link": (0.85, 1.02)}
MAX_STREAMS = 100
MEASURED_S = 2
# Slow start is over after so many round trips; what it lost, and cubic's way back, after so many.
WARM_RTTS, SETTLED_RTTS = 12, 40
LOSS_BPS, LOSS_BYTES, LOSS_S = 80_000_000, 400, 2
SIGMAS = 4.0
# So long it keeps others from measuring, and what was begun then.
TURN_S = 40.0


@dataclass(frozen=True)
class Finding:
    what: str
    expected: str
    measured: str
    ok: bool


class Check:
    """The measurements on one built link."""

    def __init__(self, built: Built, trial: Trial) -> None:
        self.built = built
        self.trial = trial
        self.findings: list[Finding] = []

    @property
    def share(self) -> float:
        return PACKET if self.built.means == RELAY else FRAME

    @property
    def now(self) -> Scenario:
        return self.built.now

    def found(self, what: str, expected: str, measured: str, ok: bool) -> None:
        self.findings.append(Finding(what, expected, measured, ok))

    def rate(self, what: str, expected_bps: float, measured_bps: float, kind: str, remark: str = "") -> None:
        low, high = BOUNDS[kind]
        self.found(what, shown(expected_bps), shown(measured_bps) + remark,
                   low * expected_bps <= measured_bps <= high * expected_bps)

    def rtt(self, when: str = "") -> None:
        said = self.built.link.inside(self.built.sender, "ping", "-q", "-c", 10, "-i", "0.02", RECEIVER_ADDRESS)
        found = re.search(r"= [\d.]+/([\d.]+)/", said)
        if found is None:
            raise CommandFailed(f"ping says nothing of a round trip: {said[-200:]}")
        asked, ms = self.now.link.rtt_s * 1e3, float(found[1])
        self.found(f"round trip{when}", f"{asked:g} to {asked + 2:g} ms", f"{ms:.2f} ms", asked <= ms <= asked + 2)

    def iperf(self, *options: object) -> dict[str, float]:
        """The end of what iperf3 says, sender in the sender's namespace, both ends in the control group."""
        self.trial.serve(Command(self.built.receiver, ["iperf3", "-s", "-1"]), PORT)
        command = Command(self.built.sender, ["iperf3", "-c", RECEIVER_ADDRESS, "-J", *options])
        measure(self.trial, [command], timeout_s=30.0)
        end: dict[str, dict[str, float]] = json.loads((self.trial.scratch / "client0.out").read_text())["end"]
        self.built.group.kill()
        return end["sum"] if "-u" in options else end["sum_received"]

    def goodput(self, streams: int, rounds: int = WARM_RTTS) -> float:
        warm = max(1, math.ceil(self.now.link.rtt_s * rounds))
        return self.iperf("-P", streams, "-t", self.seconds(rounds), "-O", warm)["bits_per_second"]

    def seconds(self, rounds: int) -> int:
        """How long is measured: longer where congestion control takes long to swing."""
        return max(MEASURED_S, math.ceil(MEASURED_S + self.now.link.rtt_s * rounds / 4 - 0.5))

    def stream_bps(self) -> tuple[float, str]:
        """What one stream moves, and what holds it back."""
        now, link = self.now, self.now.carries_bps * self.share
        capped, lossy = min(float(now.network.worker_bps), link), now.mathis_bps
        return (capped, "stream" if capped < link else "link") if capped <= lossy else (lossy, "lossy stream")

    def filling(self) -> int:
        """Streams that fill the link with some to spare."""
        one, kind = self.stream_bps()
        spare = 1.6 if kind == "lossy stream" else 1.25
        return min(MAX_STREAMS, max(4, math.ceil(self.now.carries_bps * self.share / one * spare)))

    def total(self, when: str = "") -> None:
        streams = self.filling()
        kind = "lossy link" if self.now.link.loss else "link"
        self.rate(f"{streams} streams{when}", self.now.carries_bps * self.share, self.goodput(streams, SETTLED_RTTS), kind)

    def streams(self, when: str = "") -> None:
        """One stream, and several that do not fill the link; where one could fill it there is nothing to see."""
        one, kind = self.stream_bps()
        if kind == "link":
            return
        few = max(1, int(self.now.carries_bps * self.share / one / 2))
        for streams in sorted({1, few}):
            self.rate(f"{streams} stream{'s' if streams > 1 else ''}{when}", streams * one, self.goodput(streams), kind)

    def loss(self, when: str = "") -> None:
        end = self.iperf("-u", "-b", min(LOSS_BPS, self.now.carries_bps // 4), "-l", LOSS_BYTES, "-t", LOSS_S)
        sent, lost, asked = int(end["packets"]), int(end["lost_packets"]), self.now.link.loss
        spread = SIGMAS * math.sqrt(max(asked * (1 - asked), 1 / sent) / sent)
        self.found(f"loss{when}", f"{asked:.3%} ± {spread:.3%}", f"{lost / sent:.3%} of {sent}",
                   abs(lost / sent - asked) <= spread)

    def shared(self, rate_bps: int, streams: int, when: str) -> None:
        """With the other traffic there: all of it is there, and both together fill the link."""
        self.built.others(rate_bps, streams)
        time.sleep(max(1.0, WARM_RTTS * self.now.link.rtt_s))
        count = self.filling()
        ours = self.goodput(count)
        end = time.monotonic()
        assert self.built.background is not None
        samples = self.built.background.arrived()
        self.built.hush()
        there = samples[-1].streams
        self.found(f"other streams{when}", str(streams), str(there), there == streams)
        # The warm-up is not in our figure, so theirs are taken over the same last seconds.
        theirs = moved(samples, end - self.seconds(WARM_RTTS), end)
        # What does not yield takes its rate with all headers.
        left = (self.now.carries_bps - rate_bps) * self.share
        self.rate(f"{count} of ours{when}", left, ours + theirs, "lossy link", f", theirs {shown(theirs)}")

    def steps(self) -> None:
        """After each step of the timeline, what it changed."""
        for moment, step in zip(self.built.scenario.moments[1:], (s for s in self.built.scenario.timeline if s.at_s > 0)):
            when = f" from {step.at_s:g} s on"
            self.built.become(moment)
            if step.rtt_s is not None:
                self.rtt(when)
            if step.loss is not None:
                self.loss(when)
            if step.rate_bps is not None or step.network.total_bps is not None:
                self.total(when)
            if step.network.worker_bps is not None:
                self.streams(when)

    def others(self) -> None:
        """Each amount of other traffic there is at some time."""
        seen = {(0, 0)}
        for level in levels(self.built.scenario, LONGEST_S, SEED) if self.built.background else []:
            if (level.rate_bps, level.streams) not in seen:
                seen.add((level.rate_bps, level.streams))
                mixed = f", {shown(level.rate_bps)} that do not yield" if level.rate_bps else ""
                self.shared(level.rate_bps, level.streams, f" beside {level.streams}{mixed}")


def check(built: Built, trial: Trial) -> list[Finding]:
    """Everything there is to see on a link that was just built. Other traffic is silent afterwards."""
    found = Check(built, trial)
    found.rtt()
    found.total()
    found.streams()
    if found.now.link.loss:
        found.loss()
    found.steps()
    built.reset()
    built.hush()
    found.others()
    return found.findings


def check_scenario(scenario: Scenario) -> tuple[list[Finding], list[str]]:
    """Builds it, slower if it must be, and checks it: findings and remarks."""
    fit, factor = fitting(scenario)
    remarks = [f"scaled down {factor:g} times"] if factor > 1 else []
    if left := not_built(scenario):
        remarks.append(f"only simulated: {', '.join(left)}")
    with tempfile.TemporaryDirectory() as held, Built(fit) as built:
        remarks.insert(0, built.means)
        own = Path(held)
        trial = Trial(Setting("check", "self-check"), built, built.group, Dataset("none", own, 0, 0), own, own)
        return check(built, trial), remarks


def table(findings: Sequence[Finding]) -> str:
    return "\n".join(f"  {f.what:<46} {f.expected:>19}  {f.measured:<28} {'ok' if f.ok else 'NOT SO'}"
                     for f in findings)


def found_files(words: Sequence[str]) -> list[Path]:
    """Files by path or by name; all of them if there are no words."""
    directories = [places.REPOSITORY / "scenarios", places.REPOSITORY / "lab" / "scenarios"]
    if not words:
        return [file for directory in directories for file in sorted(directory.glob("*.toml"))]
    files = []
    for word in words:
        places_ = [Path(word), *(directory / f"{word}.toml" for directory in directories)]
        files.append(next((file for file in places_ if file.is_file()), Path(word)))
    return files


def in_turns(scenarios: Sequence[Scenario]) -> Iterator[Scenario]:
    """Each in turn while nobody else measures; now and then others are let in."""
    waiting = list(scenarios)
    while waiting:
        with quiet():
            until = time.monotonic() + TURN_S
            while waiting and time.monotonic() < until:
                yield waiting.pop(0)


def main(words: Sequence[str]) -> int:
    """Checks them all and prints a table; 1 if a link is not what it says."""
    if absent := [program for program in PROGRAMS if not exists(program)]:
        raise ScenarioError(f"no link can be checked without {' and '.join(absent)}: install {', '.join(PACKAGES)}")
    scenarios = [read(file) for file in found_files(words)]
    failed = []
    for scenario in in_turns(scenarios):
        try:
            findings, remarks = check_scenario(scenario)
        except (CommandFailed, OSError, ValueError, KeyError) as error:
            findings, remarks = [Finding("the link", "built", f"{type(error).__name__}: {error}"[:300], False)], []
        print(f"{scenario.name} ({'; '.join(remarks)})\n{table(findings)}", flush=True)
        if not all(finding.ok for finding in findings):
            failed.append(scenario.name)
    print(f"{len(scenarios) - len(failed)} of {len(scenarios)} links are what they say"
          + (f"; not so: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0
