"""Control rules and fixed numbers on a link that needs ten streams, memory to memory, and the demo beside them."""

import json
from collections.abc import Mapping

from lab.grid.case import Case
from lab.grid.engine import MAX_WORKERS, Engine, Rule, fixed, logged
from lab.grid.run import Cell
from lab.ground import places
from lab.ground.shell import CommandFailed
from lab.links.scenario import read
from lab.rivals.tidegate import Tidegate
from lab.runs.trial import Command, Measured, Trial
from lab.shard import grid

NAME = "controllers"
LINK = places.REPOSITORY / "lab" / "scenarios" / "ten-streams.toml"
EPOCHS = 60
FIXED = (1, 4, 8, 10, 12, 16, 20, 32)
DEMO = "demo"
# So many seconds the demo may take; it ends by itself, long before.
DEMO_S = 180.0

# Falcon and the gradient were published with epochs of this length.
SLOW_S, QUICK_S = 3, 1
SLOW = (Rule("gradient", "gradient", ("--epoch", f"{SLOW_S}s")), Rule("falcon", "falcon", ("--epoch", f"{SLOW_S}s")))
QUICK = (Rule("auto", "auto"), Rule("aimd", "aimd", ("--epoch", f"{QUICK_S}s")))


def seconds(epoch_s: float) -> float:
    """Epochs start late by a few milliseconds each, and the last one is cut short by the end."""
    return EPOCHS * epoch_s * 1.02 + epoch_s


class Demo(Tidegate):
    """`tidegate demo`, in memory: it shapes a path of its own on the loopback."""

    moves_files = False
    by_itself = True

    def __init__(self) -> None:
        super().__init__("b")
        self.name = DEMO

    def prepare(self, trial: Trial) -> None:
        """It brings its own endpoint."""

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender,
                        [places.tidegate_binary(), "demo", "--json", "--epochs", trial.scratch / "epochs0.jsonl",
                         "--directory", trial.destination, "--state", trial.scratch / "client"])]

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        summary = self.summary(trial)
        if summary.get("verified") is not True:
            raise CommandFailed(f"it says it did not verify: {json.dumps(summary)}")
        return float(str(summary["goodput_bps"]))

    def notes(self, trial: Trial) -> Mapping[str, object]:
        return {"bytes_moved": self.summary(trial)["bytes"], "verified": True,
                "epochs": [logged(trial.scratch / "epochs0.jsonl")]}


def cases() -> tuple[Case, Case, Case]:
    """The slow rules, the quick ones with the fixed numbers, and the demo, for which the link is only there."""
    link = read(LINK)
    title = "2 Gbit/s link, 200 Mbit/s a stream"
    return (Case("epochs-3s", f"{title}, epochs of {SLOW_S} s", link, seconds(SLOW_S)),
            Case("epochs-1s", f"{title}, epochs of {QUICK_S} s", link, seconds(QUICK_S)),
            Case(DEMO, "the demo on its own path", link, DEMO_S))


def cells() -> list[Cell]:
    slow, quick, demo = cases()
    return [*(Cell(slow, Engine(rule, slow)) for rule in SLOW),
            *(Cell(quick, Engine(rule, quick)) for rule in (*QUICK, *map(fixed, FIXED))),
            Cell(demo, Demo())]


SHARDS = (grid(NAME, "control rules, fixed numbers and the demo on a link that needs ten streams", 95, cells),)


# For the page.
SHOWN = f"tidegate probe DST --time T --json --data-plane clear --optimizer X --max-workers {MAX_WORKERS}"
DEMO_SHOWN = "tidegate demo --json --epochs F --directory /dev/shm"
