"""What a figure means nothing without: the machine, and the tools installed on it."""

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from lab.links.percon import PACKAGES as CAP_PACKAGES
from lab.rivals.base import Contender
from lab.ground.shell import CommandFailed, exists, run


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def describe() -> str:
    return (f"{os.cpu_count()} x {processor()}, {memory_gib():.0f} GiB memory, {system()}, "
            f"Linux {platform.release()}")


def install(contenders: Iterable[Contender], more: Iterable[str] = ()) -> None:
    """Installs what is missing with apt, package by package, so that one absence costs one contender."""
    wanted = {package for contender in contenders if contender.missing() for package in contender.packages}
    wanted |= {package for package in (*CAP_PACKAGES, "iproute2", "procps", *more) if not installed(package)}
    if not wanted:
        return
    if os.geteuid() != 0 or not exists("apt-get"):
        print(f"not installed and cannot be installed here: {', '.join(sorted(wanted))}")
        return
    run(["apt-get", "update"], check=False)
    for package in sorted(wanted):
        try:
            run(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y",
                 "--no-install-recommends", package])
            print(f"installed {package}")
        except CommandFailed as failure:
            print(f"not installable: {failure}")


def installed(package: str) -> bool:
    return run(["dpkg-query", "-W", "-f", "${Status}", package], check=False).endswith("ok installed")
