"""One transfer by one contender: its surroundings, and what was measured."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.ground.cgroup import Cgroup
from lab.runs.datasets import Dataset
from lab.links.link import Ends
from lab.runs.setting import Setting
from lab.ground.shell import CommandFailed, run

SERVER_PATIENCE_S = 15.0


@dataclass(frozen=True)
class Command:
    """A command of the client side, and the namespace it runs in."""

    namespace: str
    argv: Sequence[object]
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """What a contender finds when it is its turn."""

    setting: Setting
    link: Ends
    group: Cgroup
    source: Dataset
    destination: Path
    scratch: Path

    def start(self, command: Command, log: str) -> subprocess.Popen[bytes]:
        """Starts a command in its namespace and in the run's control group."""
        argv = ["ip", "netns", "exec", command.namespace, *map(str, command.argv)]
        if command.environment:
            settings = [f"{key}={value}" for key, value in command.environment.items()]
            argv[4:4] = ["env", *settings]
        with open(self.scratch / f"{log}.out", "wb") as out, open(self.scratch / f"{log}.err", "wb") as err:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    cwd=command.directory, start_new_session=True,
                                    preexec_fn=self.group.join())

    def serve(self, command: Command, port: int, log: str = "server") -> subprocess.Popen[bytes]:
        """Starts a server and waits until it listens."""
        server = self.start(command, log)
        until = time.monotonic() + SERVER_PATIENCE_S
        while time.monotonic() < until:
            listening = run(["ip", "netns", "exec", command.namespace, "ss", "-Hltn", f"sport = :{port}"])
            if listening.strip():
                return server
            if server.poll() not in (None, 0):
                break
            time.sleep(0.02)
        raise CommandFailed(f"{command.argv[0]} does not listen on port {port}: {self.last_words(log)}")

    def first_line(self, what: str, log: str = "server") -> str:
        """What a server printed first: where it is to be found."""
        for _ in range(250):
            first, newline, _ = (self.scratch / f"{log}.out").read_text().partition("\n")
            if newline:
                return first.strip()
            time.sleep(0.02)
        raise CommandFailed(f"{what}: {self.last_words(log)}")

    def last_words(self, log: str) -> str:
        """The end of what a command printed, errors last."""
        texts = [(self.scratch / f"{log}{end}") for end in (".out", ".err")]
        words = " ".join(path.read_text(errors="replace")[-400:] for path in texts if path.exists())
        return " ".join(words.split())[-500:]


@dataclass(frozen=True)
class Change:
    """What happens to the path at a second of a run."""

    at_s: float
    make: Callable[[], None]


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu_seconds: float


def measure(trial: Trial, commands: Sequence[Command], timeout_s: float) -> Measured:
    """Runs all commands at once; wall time from the first start to the last exit, CPU of both ends."""
    cpu = trial.group.cpu_seconds()
    begin = time.monotonic()
    running = [trial.start(command, f"client{i}") for i, command in enumerate(commands)]
    try:
        for i, process in enumerate(running):
            status = process.wait(timeout=max(0.1, begin + timeout_s - time.monotonic()))
            if status != 0:
                raise CommandFailed(f"status {status}: {trial.last_words(f'client{i}')}")
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"not done after {timeout_s:.0f} s") from None
    seconds = time.monotonic() - begin
    return Measured(seconds, trial.group.cpu_seconds() - cpu)
