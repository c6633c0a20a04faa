"""What the tests share: the repository's scenarios, and one of the tests' own."""

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
