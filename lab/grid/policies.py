"""Policies trained for one path, and what a path is found to be when random numbers of streams are tried on it, as the
papers do before they train: both once for each build of the program."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from lab.grid.case import Case
from lab.grid.engine import Engine, Rule
from lab.ground import places
from lab.ground.quiet import quiet
from lab.ground.shell import CommandFailed, run
from lab.links.built import Built
from lab.links.scenario import Scenario, engine_limits, read, toml
from lab.movers.runner import fresh
from lab.runs.datasets import Dataset
from lab.runs.trial import Command, Trial, measure

# For the connection, and for a last epoch on the worst of links.
PATIENCE_S = 60.0


def kept(name: str, end: str, made_of: Sequence[object]) -> Path:
    """The file's path, in a directory that exists; the name says what it is, the rest of it what it is made of."""
    stamp = hashlib.blake2b(json.dumps(made_of).encode(), digest_size=6).hexdigest()
    directory = places.BUILD / "lab" / "policies"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{name}-{stamp}.{end}"


def trained(rule: Rule, scenario: Scenario, build: str) -> Path | None:
    """The policy file for that path; None where the rule needs no training."""
    if not rule.recipe:
        return None
    # Rules that differ only in how they use a policy share it.
    policy = kept(f"{rule.recipe}-{scenario.name}", "safetensors", [build, toml(scenario), rule.recipe])
    if policy.exists():
        return policy
    described = policy.with_suffix(".toml")
    described.write_text(toml(scenario))
    print(f"training {policy.name}", flush=True)
    # Status 1: the criterion was not met; the best policy is kept all the same.
    said = run([places.tidegate_binary(), "train", "--scenario", described, "--recipe", rule.recipe, "--output", policy,
                "--json"], fine=(0, 1))
    if not policy.exists():
        raise CommandFailed(f"{policy.name} was not written: {said}")
    return policy


def explored(case: Case, engine: Engine, seconds: int, source: Dataset | None = None) -> Scenario:
    """The path that `tidegate explore` finds on the case's link, once for each build of the program.

    Where readers or writers are slow, the case's files are copied for it: from memory only streams would be seen.
    """
    slow = case.scenario.read is not None or case.scenario.write is not None
    copied = source.root if slow and source is not None and case.data is not None else None
    found = kept(f"explored-{case.scenario.name}", "toml",
                 [engine.version(), toml(case.scenario), seconds, *([] if copied is None else [case.name])])
    if not found.exists():
        print(f"exploring {case.scenario.name} for {seconds} s", flush=True)
        fresh()
        with Built(case.scenario, case.queue_s) as link, quiet():
            nothing = Dataset("memory", places.SOURCES, 0, 0)
            trial = Trial(case.setting, link, link.group, nothing, places.DESTINATIONS, places.SCRATCH)
            engine.prepare(trial)
            measure(trial, [Command(link.sender, argv(engine, trial, seconds, found, copied))],
                    seconds + PATIENCE_S)
    return read(found)


def argv(engine: Engine, trial: Trial, seconds: int, found: Path, copied: Path | None = None) -> list[object]:
    ticket = engine.ticket(trial)
    what = [ticket] if copied is None else [f"{ticket.rstrip('/')}/explored/", "--files", f"{copied}/",
                                            *engine_limits(engine.case.scenario)]
    return [places.tidegate_binary(), "explore", *what, "--duration", f"{seconds}s",
            "--max-workers", engine.max_workers, "--scenario", found, "--state", trial.scratch / "explorer-state",
            *engine.both_ends]
