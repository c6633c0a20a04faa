"""Our own engine under one control rule: only the rule differs between these contenders."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.ground import places
from lab.grid.case import Case
from lab.links.scenario import engine_limits
from lab.rivals.tidegate import LEVELS, Tidegate
from lab.runs.trial import Command, Trial

MAX_WORKERS = 32


@dataclass(frozen=True)
class Rule:
    """A control rule as the tables name it, and what the command line is told."""

    name: str
    optimizer: str
    arguments: tuple[object, ...] = ()
    # For rules that are trained for a path: by which recipe.
    recipe: str = ""
    # Trained for what exploring finds in so many seconds, whatever the case says.
    explored_s: int | None = None

    def without(self, called: str, *switches: str) -> "Rule":
        """The same rule in an engine that lacks something (chunking, pipelining) and is called so for it."""
        off = [word for switch in switches for word in (f"--{switch}", "off")]
        return replace(self, name=f"{self.name} {called}", arguments=(*self.arguments, *off))


def fixed(n: int) -> Rule:
    return Rule(f"fixed {n}", f"fixed:{n}")


class Engine(Tidegate):
    """Every transfer of one case under one rule, at a level of trust (see docs/results/copy.md)."""

    def __init__(self, rule: Rule, case: Case, level: str = "b", max_workers: int = MAX_WORKERS,
                 more: Sequence[object] = ()) -> None:
        super().__init__(level)
        self.rule = rule
        self.case = case
        self.name = rule.name
        self.trust = LEVELS[level][0]
        self.max_workers = max_workers
        self.more = tuple(more)
        self.policy: Path | None = None

    @property
    def moves_files(self) -> bool:  # type: ignore[override]
        return self.case.data is not None

    def argv(self, trial: Trial, ticket: str, i: int) -> list[object]:
        target = ticket.rstrip("/") + (f"/copied{i or ''}/" if self.moves_files else "")
        what: list[object] = ["copy", f"{trial.source.root}/", target] if self.moves_files else [
            "probe", ticket, "--time", f"{self.case.seconds + 60:g}s"]
        policy = [] if self.policy is None else ["--policy", self.policy]
        return [places.tidegate_binary(), *what, "--json", "--optimizer", self.rule.optimizer, *policy,
                "--max-workers", self.max_workers, *self.rule.arguments, *engine_limits(self.case.scenario),
                *self.both_ends, *self.client, *self.more, "--epochs", trial.scratch / f"epochs{i}.jsonl",
                "--state", trial.scratch / f"client{i}-state"]

    def commands(self, trial: Trial) -> list[Command]:
        ticket = self.ticket(trial)
        return [Command(trial.link.sender, self.argv(trial, ticket, i)) for i in range(len(self.case.presence))]

    def notes(self, trial: Trial) -> Mapping[str, object]:
        return {"epochs": [logged(trial.scratch / f"epochs{i}.jsonl") for i in range(len(self.case.presence))],
                "arguments": " ".join(map(str, ("--optimizer", self.rule.optimizer, *self.rule.arguments)))}


def logged(path: Path) -> list[Mapping[str, object]]:
    """The epochs of a run; a line that an interrupt cut short is left out."""
    whole = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in whole]
