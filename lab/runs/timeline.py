"""Clients that come and go, and a path that changes under them, at given seconds of one run."""

import heapq
import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.ground.shell import CommandFailed
from lab.runs.trial import Command, Measured, Trial

# A client that is told to leave may take so long, and exits with one of these.
LEAVING_S = 30.0
LEFT = (0, 130)


@dataclass(frozen=True)
class Client:
    """A command that is started at one second and interrupted at another."""

    command: Command
    joins_s: float
    leaves_s: float


@dataclass(frozen=True)
class Change:
    at_s: float
    make: Callable[[], None]


def play(trial: Trial, clients: Sequence[Client], changes: Sequence[Change]) -> Measured:
    """Runs them all to their end. A client that ends before it is told to has failed."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    # The number keeps what falls on the same second in order.
    events: list[tuple[float, int, Callable[[], None]]] = []

    def plan(at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(events, (at_s, len(events), act))

    def join(i: int) -> None:
        running[i] = trial.start(clients[i].command, f"client{i}")

    def leave(i: int) -> None:
        process = running.pop(i)
        check(i, process)
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(timeout=LEAVING_S)
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"client {i} did not leave: {trial.last_words(f'client{i}')}") from None
        if status not in LEFT:
            raise CommandFailed(f"status {status}: {trial.last_words(f'client{i}')}")

    def check(i: int, process: subprocess.Popen[bytes]) -> None:
        if (status := process.poll()) is not None:
            raise CommandFailed(f"client {i} ended too early, status {status}: {trial.last_words(f'client{i}')}")

    for change in changes:
        plan(change.at_s, change.make)
    for i, client in enumerate(clients):
        plan(client.joins_s, lambda i=i: join(i))  # type: ignore[misc]
        plan(client.leaves_s, lambda i=i: leave(i))  # type: ignore[misc]
    cpu, begin = trial.group.cpu_seconds(), time.monotonic()
    while events:
        at_s, _, act = heapq.heappop(events)
        time.sleep(max(0.0, begin + at_s - time.monotonic()))
        for i, process in running.items():
            check(i, process)
        act()
    return Measured(time.monotonic() - begin, trial.group.cpu_seconds() - cpu)


def logged(trial: Trial, clients: int) -> list[list[Mapping[str, object]]]:
    """The epochs that each client logged to epochs0.jsonl and so on; what an interrupt cut short is left out."""
    logs = []
    for i in range(clients):
        whole = (trial.scratch / f"epochs{i}.jsonl").read_text().split("\n")[:-1]
        if not whole:
            raise CommandFailed(f"client {i} logged no epoch: {trial.last_words(f'client{i}')}")
        logs.append([json.loads(line) for line in whole])
    return logs
