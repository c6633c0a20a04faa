"""What starts movers on the hosts of a site besides Slurm: a Dask cluster, and ssh."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lab.fleet.hosts import HEAD_ADDRESS, Host, Site
from lab.ground import places
from lab.ground.shell import exists, run

VENV = places.BUILD / "lab" / "dask"
LIBRARIES = ("distributed",)
SCHEDULER, SSH = 8786, 2222
# What a host begins as a mover.
MOVER = "mover"


def install() -> None:
    """What a Dask cluster consists of, in a virtual environment of its own."""
    if missing():
        run(["python3", "-m", "venv", "--clear", VENV])
        run([VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *LIBRARIES])
        print(f"{', '.join(LIBRARIES)}: installed", flush=True)


def missing() -> str | None:
    """Why it cannot run here, or None."""
    if not (VENV / "bin" / "dask").is_file():
        return "Dask is not in the lab's virtual environment; run: python3 -m lab install"
    absent = [program for program in ("ssh", "ssh-keygen", "/usr/sbin/sshd") if not exists(program)]
    return f"{', '.join(absent)} not installed" if absent else None


class Daemons:
    """Context manager: what runs on the hosts lives as long as the `with` block."""

    def __init__(self, site: Site, scratch: Path) -> None:
        self.site, self.scratch = site, scratch
        self.running: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """That of `spread`."""
        return {**os.environ, "LC_ALL": "C"}

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever is left of them ends with its host.
        for daemon in self.running:
            daemon.kill()
            daemon.wait()

    def begin(self) -> None:
        raise NotImplementedError

    def start(self, host: Host, *command: object) -> None:
        with open(self.scratch / f"{host.name}.log", "ab") as log:
            self.running.append(host.start(*command, log=log, environment=self.environment))


class Dask(Daemons):
    """A scheduler at the head, and a worker on each node that runs a task at a time."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}"}

    @property
    def words(self) -> Sequence[object]:
        return ["--engine", f"dask:tcp://{HEAD_ADDRESS}:{SCHEDULER}"]

    def begin(self) -> None:
        self.start(self.site.head, "dask", "scheduler", "--host", HEAD_ADDRESS, "--port", SCHEDULER, "--no-dashboard")
        for host in self.site.nodes:
            self.start(host, "dask", "worker", f"tcp://{HEAD_ADDRESS}:{SCHEDULER}", "--host", host.address, "--no-nanny",
                       "--no-dashboard", "--nworkers", 1, "--nthreads", 1, "--name", host.name,
                       "--local-directory", self.scratch / f"{host.name}.dask")


class Ssh(Daemons):
    """A server of its own on each node, which the head's user may enter."""

    @property
    def words(self) -> Sequence[object]:
        settings = {"Port": SSH, "IdentityFile": self.scratch / "user", "StrictHostKeyChecking": "no", "LogLevel": "ERROR",
                    "UserKnownHostsFile": "/dev/null"}
        ssh = " ".join(["ssh", "-F", "none", *(f"-o {key}={value}" for key, value in settings.items())])
        hosts = ",".join(host.name for host in self.site.nodes)
        return ["--engine", f"ssh:{hosts}", "--ssh", ssh, "--remote-path", self.scratch / MOVER]

    def begin(self) -> None:
        for key in ("host", "user"):
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.scratch / key])
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for host in self.site.nodes:
            settings = {"ListenAddress": f"{host.address}:{SSH}", "HostKey": self.scratch / "host", "PermitRootLogin": "yes",
                        "AuthorizedKeysFile": self.scratch / "user.pub", "StrictModes": "no", "UsePAM": "no",
                        "PidFile": self.scratch / f"{host.name}.pid"}
            configuration = self.scratch / f"{host.name}.sshd"
            configuration.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
            self.start(host, "/usr/sbin/sshd", "-D", "-e", "-f", configuration)
