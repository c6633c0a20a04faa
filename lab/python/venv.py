"""The virtual environment with the package's wheel and the libraries that it is measured beside."""

import json
import platform
from pathlib import Path

from lab.ground import places
from lab.ground.shell import run

HOME = places.BUILD / "lab" / "python"
PYTHON = HOME / "bin" / "python"
LIBRARIES = ("fsspec", "aiohttp", "s3fs", "obstore")
ADVICE = "run: scripts/wheel, then python3 -m lab install"


def wheel() -> Path | None:
    """What `scripts/wheel` has built for this machine."""
    found = (places.BUILD / "wheels").glob(f"tidegate-*manylinux*_{platform.machine()}.whl")
    return next(iter(sorted(found)), None)


def install() -> None:
    """Makes it anew: the wheel may be another."""
    built = wheel()
    if built is None:
        print(f"no wheel of the Python package: {ADVICE}")
        return
    run(["python3", "-m", "venv", "--clear", HOME])
    run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", built, *LIBRARIES])
    print(f"{built.name} and {', '.join(LIBRARIES)}: installed", flush=True)


def missing(package: str) -> str | None:
    """Why something of it cannot be measured, in one line; None if it can."""
    return None if version(package) else f"{package} is not in the lab's virtual environment; {ADVICE}"


def version(package: str) -> str:
    """Which one is installed; nothing if none is."""
    if not PYTHON.is_file():
        return ""
    listed = json.loads(run([PYTHON, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]))
    return next((str(each["version"]) for each in listed if each["name"] == package), "")
