"""Where the lab keeps things: data on tmpfs, results below the build directory."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
RESULTS = BUILD / "lab" / "copy.jsonl"
PAGES = REPOSITORY / "docs" / "results"
HTML = BUILD / "lab" / "report.html"

# tmpfs: a disk would measure the disk.
MEMORY = Path(os.environ.get("TIDEGATE_LAB_MEMORY", "/dev/shm/tidegate-lab"))
SOURCES = MEMORY / "source"
DESTINATIONS = MEMORY / "destination"
SCRATCH = MEMORY / "scratch"


def tidegate_binary() -> Path:
    """The binary under test; TIDEGATE_BIN names another one."""
    return Path(os.environ.get("TIDEGATE_BIN", BUILD / "release" / "tidegate"))
