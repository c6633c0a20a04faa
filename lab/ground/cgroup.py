"""One control group (v2) per run: it counts the CPU time of both ends and ends every process."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from lab.ground.shell import CommandFailed, run

OWN_MOUNT = Path("/run/tidegate-lab-cgroup")


def mount_point() -> Path:
    """Where cgroup v2 is mounted; mounts it when it is not."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    OWN_MOUNT.mkdir(exist_ok=True)
    run(["mount", "-t", "cgroup2", "none", OWN_MOUNT])
    return OWN_MOUNT


class Cgroup:
    """Context manager: on exit every process in the group is killed and the group removed."""

    def __init__(self) -> None:
        self.path = mount_point() / f"tidegate-lab-{os.getpid()}"

    def __enter__(self) -> "Cgroup":
        self.path.mkdir(exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        try:
            self.path.rmdir()
        except OSError as failure:
            print(f"warning: {self.path} stays: {failure}")

    def join(self) -> Callable[[], None]:
        """A function that puts the calling process into the group: for Popen's preexec_fn.

        Programs are told to leave by an interrupt, which a shell in the background has its children ignore.
        """
        procs = str(self.path / "cgroup.procs")

        def enter() -> None:
            with open(procs, "w") as file:
                file.write("0")
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        return enter

    def cpu_seconds(self) -> float:
        for line in (self.path / "cpu.stat").read_text().splitlines():
            key, value = line.split()
            if key == "usage_usec":
                return int(value) / 1e6
        raise CommandFailed(f"{self.path}/cpu.stat has no usage_usec")

    def kill(self) -> None:
        """Ends every process in the group and waits until it is empty."""
        (self.path / "cgroup.kill").write_text("1")
        for _ in range(250):
            if "populated 0" in (self.path / "cgroup.events").read_text():
                return
            time.sleep(0.02)
        raise CommandFailed(f"processes remain in {self.path} five seconds after they were killed")
