"""What every contender can say and do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from lab.ground.results import Record, now
from lab.runs.datasets import Dataset
from lab.ground.shell import exists, run
from lab.runs.trial import Command, Measured, Trial
from lab.runs.verify import sizes

LIMIT = "limit"
Tool = TypeVar("Tool", bound="Contender")
# Debian's, by the program.
PACKAGES = {"aria2c": "aria2", "curl": "curl", "globus-url-copy": "globus-gass-copy-progs",
            "globus-gridftp-server": "globus-gridftp-server-progs", "iperf3": "iperf3", "nginx": "nginx-light",
            "openssl": "openssl", "pigz": "pigz", "prefetch": "sra-toolkit", "rclone": "rclone", "rsync": "rsync",
            "vsftpd": "vsftpd", "ssh": "openssh-client", "ssh-keygen": "openssh-client", "/usr/sbin/sshd": "openssh-server", "wget": "wget",
            "wget2": "wget2", "xrdcp": "xrootd-client", "xrootd": "xrootd-server"}


class Contender:
    """One tool at one setting. Subclasses fill in the fields and the two methods."""

    name: str
    level: str  # a, b, c (see docs/results) or LIMIT
    trust: str  # what the tool promises about the bytes at this setting
    programs: Sequence[str] = ()
    moves_files = True
    # Whether it brings its own path, ends by itself, and has to be asked how fast it was.
    by_itself = False
    # Its statuses, besides 0 and a signal's, when it is told to leave.
    leaves_with: Sequence[int] = ()

    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
        absent = [program for program in self.programs if not exists(program)]
        return f"{', '.join(absent)} not installed" if absent else None

    def version(self) -> str:
        if not self.packages:
            return ""
        return run(["dpkg-query", "-W", "-f", "${Version}", self.packages[0]], check=False).strip()

    @property
    def packages(self) -> list[str]:
        """Those that have its programs."""
        return [PACKAGES[program] for program in self.programs if program in PACKAGES]

    def blank(self, scenario: str, set_: str, repeat: int, seed: int, version: str, files: int, size: int,
              scale: float = 1.0) -> Record:
        """What is known of a run before it was made."""
        return Record(scenario, set_, self.name, self.level, repeat, seed, scale, ok=False, version=version,
                      trust=self.trust, files=files, bytes=size, time=now())

    def shorten(self) -> None:
        """Makes a run of fixed length short, for a trial of the harness."""

    def prepare(self, trial: Trial) -> None:
        """Starts servers and writes lists; not timed."""

    def commands(self, trial: Trial) -> list[Command]:
        """What is timed; all are started at once."""
        raise NotImplementedError

    def landing(self, trial: Trial) -> Path:
        """Where the copied tree begins."""
        return trial.destination

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        return trial.source.size * 8 / measured.seconds

    def notes(self, trial: Trial) -> Mapping[str, object]:
        """More to record about the run."""
        return {}


class Unchecked(Contender):
    """One that promises nothing about the bytes."""

    level = "c"
    trust = "none"


def able(contenders: Sequence[Tool]) -> list[Tool]:
    """Those that can run here; why the others cannot is said."""
    reasons = {contender.name: contender.missing() for contender in contenders}
    for name, reason in reasons.items():
        if reason is not None:
            print(f"left out: {name}: {reason}")
    return [contender for contender in contenders if reasons[contender.name] is None]


def shares(dataset: Dataset, count: int) -> list[list[str]]:
    """The files dealt out so that every share has about the same bytes: largest first, to the lightest."""
    found = sorted(sizes(dataset.root).items(), key=lambda item: (-item[1], item[0]))
    totals, lists = [0] * count, [[] for _ in range(count)]  # type: list[int], list[list[str]]
    for path, size in found:
        lightest = totals.index(min(totals))
        totals[lightest] += size
        lists[lightest].append(path)
    return [sorted(paths) for paths in lists if paths]


def write_lists(trial: Trial, count: int, end: str = "\n") -> list[Path]:
    """One file of paths for each share."""
    written = []
    for i, paths in enumerate(shares(trial.source, count)):
        target = trial.scratch / f"share{i}"
        target.write_text("".join(path + end for path in paths))
        written.append(target)
    return written
