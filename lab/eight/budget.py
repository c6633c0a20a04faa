"""Transfers whose streams a service divides, as it does for the movers of a run: each is told how many it may use."""

import sys
import time
from collections.abc import Sequence

from lab.grid.case import Case
from lab.grid.engine import Engine, Rule
from lab.ground import places
from lab.ground.shell import CommandFailed
from lab.runs.trial import Command, Trial

PORT = 7118
PATIENCE_S = 20.0


class Budgeted(Engine):
    """The same engine, with a service at the sender, and somebody who says to it what movers say (renewing.py)."""

    def __init__(self, rule: Rule, case: Case, streams: int, more: Sequence[object] = ()) -> None:
        super().__init__(rule, case, more=more)
        self.budget = streams

    def prepare(self, trial: Trial) -> None:
        super().prepare(trial)
        state = trial.scratch / "service-state"
        trial.serve(Command(trial.link.sender, [places.tidegate_binary(), "serve", "--listen", f"127.0.0.1:{PORT}",
                                                "--state", state]), PORT, "service")
        count = len(self.case.presence)
        renewing = trial.start(Command(trial.link.sender, [
            sys.executable, "-m", "lab.eight.renewing", f"http://127.0.0.1:{PORT}", state, trial.scratch, count,
            self.budget], directory=places.REPOSITORY), "renewing")
        # A transfer begins with what it was granted.
        until = time.monotonic() + PATIENCE_S
        while not all((trial.scratch / f"bounds{i}").exists() for i in range(count)):
            if renewing.poll() is not None or time.monotonic() > until:
                raise CommandFailed(f"the budget is not divided: {trial.last_words('renewing')}")
            time.sleep(0.05)

    def argv(self, trial: Trial, ticket: str, i: int) -> list[object]:
        return [*super().argv(trial, ticket, i), "--bounds", trial.scratch / f"bounds{i}"]
