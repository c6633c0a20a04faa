"""PostgreSQL from Debian at the head of a site, in a directory of its own."""

import glob
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

from lab.fleet.hosts import HEAD_ADDRESS, Host
from lab.ground.shell import CommandFailed, run

PORT = 5433
USER = "postgres"
PATIENCE_S = 30.0


def programs() -> Path | None:
    """Where the newest one is."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(Path(path).parts[4]))
    return Path(found[-1]).parent if found else None


def missing() -> str | None:
    """Why it cannot run here, or None."""
    return None if programs() else "PostgreSQL is not installed; install the package postgresql"


class Postgres:
    """Context manager: the database lives as long as the `with` block."""

    def __init__(self, head: Host, scratch: Path) -> None:
        self.head, self.data = head, scratch / "postgres"
        self.log = scratch / "postgres.log"
        self.process: subprocess.Popen[bytes] | None = None
        bin = programs()
        if bin is None:
            raise CommandFailed(str(missing()))
        self.bin = bin

    @property
    def url(self) -> str:
        return f"postgres://{USER}@{HEAD_ADDRESS}:{PORT}/postgres"

    def __enter__(self) -> Self:
        self.data.mkdir()
        shutil.chown(self.data, USER, USER)
        # Only what is in these namespaces reaches it.
        run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", self.bin / "initdb", "--no-sync", "--auth=trust",
             f"--username={USER}", "--pgdata", self.data])
        with open(self.data / "pg_hba.conf", "a") as rules:
            rules.write("host all all 10.78.0.0/24 trust\n")
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it, anew after `kill`."""
        with open(self.log, "ab") as log:
            self.process = self.head.start(
                "setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", self.bin / "postgres", "-D", self.data,
                "-p", PORT, "-c", f"listen_addresses={HEAD_ADDRESS}", "-c", "unix_socket_directories=", log=log)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if "accepting" in self.head.run("sh", "-c", f"{self.bin}/pg_isready -h {HEAD_ADDRESS} -p {PORT} || true"):
                return
            time.sleep(0.1)
        raise CommandFailed(f"PostgreSQL does not answer: {self.log.read_text(errors='replace')[-300:]}")

    def kill(self) -> None:
        """As a power cut would."""
        if self.process is not None:
            os.killpg(self.process.pid, 9)
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            # Its fast shutdown.
            self.process.send_signal(2)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
