"""What a figure means nothing without: the machine, and the tools installed on it."""

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from lab.links.percon import PACKAGES as CAP_PACKAGES
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
    return (f"{os.cpu_count()} x {processor()}, {memory_gib():.0f} GiB memory, {system()}, Linux {platform.release()}")


# What the lab itself runs: links, their self-check, data from servers, the report.
GROUND = ("iproute2", "procps", "iputils-ping", "iperf3", "nftables", "openssl", "nginx-light", "python3-markdown")


def outcomes(wanted: Iterable[str]) -> bool:
    """One line a package: installed, or why not; one by one, so that one absence costs one contender."""
    missing = sorted({package for package in wanted if not installed(package)})
    if not missing:
        return True
    if os.geteuid() != 0 or not exists("apt-get"):
        print(f"not installed and cannot be installed here: {', '.join(missing)}")
        return False
    run(["apt-get", "update"], check=False)
    good = True
    for package in missing:
        try:
            run(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y",
                 "--no-install-recommends", package])
            print(f"{package}: installed", flush=True)
        except CommandFailed as failure:
            good = False
            print(f"{package}: not installable: {last_line(str(failure))}", flush=True)
    return good


def last_line(text: str) -> str:
    """What apt-get says last, without the command before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rpartition("E: ")[2] if lines else "apt-get said nothing"


def everything() -> int:
    """All rivals of all pages, and what the site of many hosts runs. A tool that this system does not have costs its own columns only."""
    from lab.fleet import others
    from lab.fleet.slurm import PACKAGES as SITE_PACKAGES
    from lab.get import archive, rotation
    from lab.get.cases import CASES
    from lab.rivals import contenders
    from lab.links.delayed import PACKAGES as PATH_PACKAGES
    from lab.python import venv
    from lab.runs.setting import OPEN

    wanted = {*GROUND, *CAP_PACKAGES, *PATH_PACKAGES, *SITE_PACKAGES, "postgresql"}
    downloaders = [contender for case in CASES.values() for contender in rotation.contenders(case)]
    wanted |= {package for contender in (*contenders(OPEN), *downloaders) for package in contender.packages}
    for package in sorted(wanted):
        if installed(package):
            print(f"{package}: there")
    outcomes(wanted)
    archive.install()
    venv.install()
    others.install()
    return 0


def installed(package: str) -> bool:
    return run(["dpkg-query", "-W", "-f", "${Status}", package], check=False).endswith("ok installed")
