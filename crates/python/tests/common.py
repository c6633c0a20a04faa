"""What the tests share: the repository's scenarios, one of the tests' own, and the program where it is built."""

import importlib
import os
import unittest
from pathlib import Path

import tidegate

ROOT = Path(__file__).parents[3]
SCENARIOS = ROOT / "scenarios"


def scenario(name):
    return tidegate.Scenario.from_file(SCENARIOS / f"{name}.toml")


def text(*more, name="small", network="worker_rate = '100Mbit/s'\nmax_workers = 10"):
    """A path memory to memory, with further tables."""
    head = f"name = '{name}'\ndescription = 'a path'\n"
    return head + f"[network]\n{network}\n[link]\nrate = '1Gbit/s'\n" + "\n".join(more)


def program():
    """Where the program is; a test without it skips itself."""
    targets = [ROOT / "target" if name is None else Path(name) for name in (os.environ.get("CARGO_TARGET_DIR"), None)]
    built = [target / profile / "tidegate" for target in targets for profile in ("debug", "release")]
    places = [Path(place) for place in [os.environ.get("TIDEGATE")] if place] + built
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise unittest.SkipTest("the program tidegate is not built: cargo build")
    return str(found)


def needs(*modules):
    """Leaves a class of tests out where one of `modules` is not there, which is too large to be installed for them."""
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError:
        return lambda tests: None
    return lambda tests: tests
