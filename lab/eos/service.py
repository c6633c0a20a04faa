"""`tidegate serve` on loopback with a state of its own, and an endpoint to measure against."""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.ground.watch import peak
from lab.ground.places import tidegate_binary
from lab.ground.shell import CommandFailed

PATIENCE_S = 20.0
# How a job may end.
ENDS = {"done", "failed", "cancelled"}


@dataclass
class Service:
    """A running service."""

    process: subprocess.Popen[str]
    url: str
    state: Path

    @property
    def token(self) -> str:
        return (self.state / "service" / "token").read_text().strip()

    def ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        """One request; the answer's JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read() or "null")

    def memory_mb(self) -> float:
        """The most resident memory so far."""
        return peak(Path(f"/proc/{self.process.pid}/status").read_text()) / 1e6


def stop(process: subprocess.Popen[Any]) -> None:
    """By being asked to, or by force."""
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory on a disk: what the queue promises, it promises of one."""
    path = Path(tempfile.mkdtemp(prefix="tidegate-eos-", dir="/var/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def first_line(process: subprocess.Popen[str], what: str) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise CommandFailed(f"{what} ended at once with status {process.wait(PATIENCE_S)}")
    return line


@contextlib.contextmanager
def started(argv: list[object], log: Path) -> Iterator[subprocess.Popen[str]]:
    with open(log, "w") as errors:
        process = subprocess.Popen([str(part) for part in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors, text=True)
    try:
        yield process
    finally:
        stop(process)


@contextlib.contextmanager
def service(state: Path, *more: object) -> Iterator[Service]:
    argv: list[object] = [tidegate_binary(), "serve", "--listen", "127.0.0.1:0", "--state", state, *more]
    with started(argv, state.parent / "serve.log") as process:
        running = Service(process, first_line(process, "the service"), state)
        until = time.monotonic() + PATIENCE_S
        while not (state / "service" / "token").exists():
            if time.monotonic() > until:
                raise CommandFailed("the service wrote no token")
            time.sleep(0.02)
        yield running


@contextlib.contextmanager
def endpoint(root: Path, state: Path) -> Iterator[str]:
    """An endpoint on loopback; its ticket."""
    root.mkdir(parents=True, exist_ok=True)
    argv: list[object] = [tidegate_binary(), "endpoint", "--root", root, "--listen", "127.0.0.1:0", "--state", state]
    with started(argv, state.parent / "endpoint.log") as process:
        yield first_line(process, "the endpoint")
