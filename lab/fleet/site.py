"""A site on which many hosts move one data set: an engine and an endpoint at the head, movers on nodes; and either PostgreSQL with
a service that lasts, or the service that `spread` starts for its run."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lab.fleet.hosts import HEAD_ADDRESS, Host, Site
from lab.fleet.postgres import Postgres
from lab.fleet.others import MOVER, Dask, Ssh
from lab.fleet.slurm import Slurm
from lab.ground import places
from lab.ground.shell import CommandFailed, run

ENDPOINT, SERVICE = 7000, 7118
PATIENCE_S = 60.0
SLURM = "slurm"
ENGINES: dict[str, type[Slurm] | type[Dask] | type[Ssh]] = {SLURM: Slurm, "dask": Dask, "ssh": Ssh}
SAMPLE_S = 0.5


@dataclass
class Moved:
    """How a run went."""

    status: int
    seconds: float
    summary: dict[str, Any]
    said: str
    # Seconds since the start, and what had come over all links by then.
    samples: list[tuple[float, int]] = field(default_factory=list)


class Fleet:
    """Context manager: everything lives as long as the `with` block."""

    def __init__(self, rates_mbit: Sequence[int], scratch: Path, lasting: bool = True, engine: str = SLURM) -> None:
        self.scratch, self.lasting, self.engine_name = scratch, lasting, engine
        self.site = Site(rates_mbit)
        self.stack = contextlib.ExitStack()
        self.destination = scratch / "destination"

    def __enter__(self) -> Self:
        # The database's user must reach its directory.
        self.scratch.chmod(0o755)
        self.destination.mkdir()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.site)
            self.engine = stack.enter_context(ENGINES[self.engine_name](self.site, self.scratch))
            # Movers of another host have a state of their own.
            self.mover = self.scratch / MOVER
            self.mover.write_text("#!/bin/sh\n"
                                  f'XDG_STATE_HOME={self.scratch}/state-$(hostname) exec {places.tidegate_binary()} "$@"\n')
            self.mover.chmod(0o755)
            self.ticket = self.serve("endpoint", "endpoint", "--root", self.destination, "--listen",
                                     f"{HEAD_ADDRESS}:{ENDPOINT}", "--state", self.scratch / "endpoint-state")
            if self.lasting:
                self.database = stack.enter_context(Postgres(self.site.head, self.scratch))
                self.serve("service", "serve", "--listen", f"{HEAD_ADDRESS}:{SERVICE}", "--insecure", "--state",
                           self.scratch / "service-state", "--shared-queue", environment={
                               **os.environ, "TIDEGATE_DATABASE": self.database.url})
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def serve(self, name: str, *words: object, environment: dict[str, str] | None = None) -> str:
        """Starts a server at the head; its first line."""
        with open(self.scratch / f"{name}.log", "ab") as log:
            process = subprocess.Popen(self.site.head.argv([places.tidegate_binary(), *words]), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True)
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        if not line:
            raise CommandFailed(f"{name} ended with {process.wait(PATIENCE_S)}: {self.last_words(name)}")
        return line

    def last_words(self, name: str) -> str:
        lines = (self.scratch / f"{name}.log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def argv(self, source: Path, movers: int) -> list[object]:
        """The command of the user."""
        at = f"{HEAD_ADDRESS}:{SERVICE}"
        service = ["--server", f"http://{at}"] if self.lasting else ["--listen", at, "--insecure"]
        return [places.tidegate_binary(), "spread", f"{source}/", f"{self.ticket.rstrip('/')}/copy/", "--json",
                *service, "--state", self.scratch / "service-state", *self.engine.words, "--movers", movers,
                "--mover-path", self.mover]

    @property
    def slurm(self) -> Slurm:
        assert isinstance(self.engine, Slurm), f"movers are started by {self.engine_name}"
        return self.engine

    def spread(self, source: Path, movers: int, limit_s: float) -> Moved:
        """Moves a tree to its end, and counts what comes meanwhile."""
        began = time.monotonic()
        with open(self.scratch / "spread.log", "wb") as log:
            process = subprocess.Popen(self.site.head.argv(self.argv(source, movers)), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=log, env=self.engine.environment, cwd=self.scratch)
        samples: list[tuple[float, int]] = []
        over = threading.Event()

        def sample() -> None:
            while not over.wait(SAMPLE_S):
                samples.append((time.monotonic() - began, self.received_bytes()))

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        try:
            out, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        finally:
            over.set()
            sampler.join()
        text = out.decode(errors="replace").strip()
        summary = json.loads(text) if text.startswith("{") else {}
        said = (self.scratch / "spread.log").read_text(errors="replace").strip()
        return Moved(process.returncode, time.monotonic() - began, summary, said, samples)

    def received_bytes(self) -> int:
        """What has come from all nodes, headers included, as the head counts it."""
        devices = json.loads(run(["ip", "-n", self.site.head.namespace, "-s", "-j", "link"]))
        names = {host.name for host in self.site.nodes}
        return sum(device["stats64"]["rx"]["bytes"] for device in devices if device["ifname"] in names)

    def movers(self, host: Host) -> list[int]:
        """The processes of movers on a node."""
        found = []
        for pid in host.processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[1:3] == [b"mover", b"--service"]:
                    found.append(pid)
        return found

    def wait_for_movers(self, hosts: int, patience_s: float = PATIENCE_S) -> None:
        """Until so many nodes have one."""
        until = time.monotonic() + patience_s
        while sum(bool(self.movers(host)) for host in self.site.nodes) < hosts:
            if time.monotonic() > until:
                raise CommandFailed(f"no movers on {hosts} nodes after {patience_s:.0f} s")
            time.sleep(0.2)

    def signal(self, host: Host, number: signal.Signals) -> None:
        for pid in self.movers(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
