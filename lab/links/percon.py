"""A rate cap per TCP connection for unmodified programs, by a small eBPF program (percon.c)."""

import os
import shutil
import struct
import tempfile
from pathlib import Path

from lab.ground.shell import CommandFailed, exists, run

BPF_FILESYSTEM = Path("/sys/fs/bpf")
PACKAGES = ("clang", "bpftool", "libbpf-dev", "linux-libc-dev")


def missing() -> str | None:
    """Why the cap cannot be used here, or None."""
    for program in ("clang", "bpftool"):
        if not exists(program):
            return f"{program} is not installed"
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        return "libbpf-dev is not installed"
    return None


class PerConnectionCap:
    """Context manager: while it lives, each connection made in the group runs at most at the rate.

    With `follows`, connections that are open take on a rate changed later.
    """

    def __init__(self, group: Path, rate_mbit: float, follows: bool = False) -> None:
        self.group = group
        self.rate_mbit = rate_mbit
        self.follows = follows
        self.pins = BPF_FILESYSTEM / f"tidegate-lab-{os.getpid()}"

    def __enter__(self) -> "PerConnectionCap":
        try:
            self.attach()
        except BaseException:
            self.__exit__()
            raise
        return self

    def attach(self) -> None:
        if reason := missing():
            raise CommandFailed(f"no cap per connection: {reason}")
        if not os.path.ismount(BPF_FILESYSTEM):
            run(["mount", "-t", "bpf", "bpf", BPF_FILESYSTEM])
        architecture = f"/usr/include/{os.uname().machine}-linux-gnu"
        with tempfile.TemporaryDirectory() as held:
            binary = Path(held, "percon.o")
            run(["clang", "-O2", "-g", "-target", "bpf", "-I", architecture,
                 "-c", Path(__file__).with_suffix(".c"), "-o", binary])
            self.pins.mkdir(exist_ok=True)
            run(["bpftool", "prog", "load", binary, self.pins / "cap", "type", "sockops", "pinmaps", self.pins])
        self.store("follow", int(self.follows))
        self.change(self.rate_mbit)
        run(["bpftool", "cgroup", "attach", self.group, "sock_ops", "pinned", self.pins / "cap"])

    def change(self, rate_mbit: float) -> None:
        self.store("bytes_per_second", round(rate_mbit * 1e6 / 8))

    def store(self, name: str, value: int) -> None:
        run(["bpftool", "map", "update", "pinned", self.pins / name, "key", "hex", *["00"] * 4,
             "value", "hex", *[f"{byte:02x}" for byte in struct.pack("<I", value)]])

    def __exit__(self, *_: object) -> None:
        if self.pins.exists():
            run(["bpftool", "cgroup", "detach", self.group, "sock_ops", "pinned", self.pins / "cap"], check=False)
            shutil.rmtree(self.pins, ignore_errors=True)
