"""What a link is found to be when random numbers of streams are tried on it, as the papers do before they train."""

from pathlib import Path

from lab.grid.case import Case
from lab.grid.engine import Engine
from lab.grid.kept import kept
from lab.ground import places
from lab.ground.quiet import quiet
from lab.links.built import Built
from lab.links.scenario import Scenario, read, toml
from lab.movers.runner import fresh
from lab.runs.datasets import Dataset
from lab.runs.trial import Command, Trial, measure

# For the connection, and for a last epoch on the worst of links.
PATIENCE_S = 60.0


def explored(case: Case, engine: Engine, seconds: int) -> Scenario:
    """The path that `tidegate explore` finds on the case's link, once for each build of the program."""
    found = kept(f"explored-{case.scenario.name}", "toml", [engine.version(), toml(case.scenario), seconds])
    if not found.exists():
        print(f"exploring {case.scenario.name} for {seconds} s", flush=True)
        fresh()
        with Built(case.scenario) as link, quiet():
            nothing = Dataset("memory", places.SOURCES, 0, 0)
            trial = Trial(case.setting, link, link.group, nothing, places.DESTINATIONS, places.SCRATCH)
            engine.prepare(trial)
            measure(trial, [Command(link.sender, argv(engine, trial, seconds, found))], seconds + PATIENCE_S)
    return read(found)


def argv(engine: Engine, trial: Trial, seconds: int, found: Path) -> list[object]:
    return [places.tidegate_binary(), "explore", engine.ticket(trial), "--duration", f"{seconds}s",
            "--max-workers", engine.max_workers, "--scenario", found, "--state", trial.scratch / "explorer-state",
            *engine.both_ends]
