"""A scenario (docs/scenarios.md) read and written, scaled, and told to the program: what a real link is built from."""

import dataclasses
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.links.schema import STAGES, Scenario, StageStep, Step
from lab.links.tables import ScenarioError, Table, lines
from lab.links.units import shown


def read(path: Path) -> Scenario:
    """Reads and checks a file; the error is one line with the file and the key."""
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not TOML: {error}") from None
    return parsed(Table(str(path), "", values))


def parsed(top: Table) -> Scenario:
    scenario = top.filled(Scenario)
    scenario = replace(scenario, timeline=tuple(table.filled(Step) for table in top.tables("timeline")))
    # What is expected is for the simulator's tests.
    top.has("expected")
    top.done()
    name = scenario.name
    plain = name.isascii() and name == name.lower() and name.replace("-", "x").isalnum()
    top.that(plain, "name", "must be lower-case letters, digits and hyphens")
    for stage in STAGES:
        own = getattr(scenario, stage)
        top.that(own is None or own.min_workers <= own.max_workers, f"{stage}.max_workers",
                 "must not be less than min_workers")
    last = -1.0
    for i, each in enumerate(scenario.timeline):
        top.that(each.at_s > last, f"timeline[{i}].at", "must be later than the change before it")
        last = each.at_s
        for absent in (s for s in STAGES if getattr(scenario, s) is None and getattr(each, s) != StageStep()):
            raise top.fail(f"timeline[{i}].{absent}", "changes a stage the scenario does not have")
    burst = scenario.others.bursts.rate_bps if scenario.others.bursts else 0
    for moment in scenario.moments:
        top.that(moment.others.rate_bps + burst < moment.link.rate_bps, "background.rate",
                 "must always be less than link.rate, bursts included")
    return scenario


def toml(scenario: Scenario) -> str:
    """As the text that `tidegate train` and `tidegate simulate` read."""
    return lines(scenario) + "".join(f"\n[[timeline]]\n{lines(step)}" for step in scenario.timeline)


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """A path so many times slower. Rates, staging and data are divided alike, so that everything takes as long as
    before; only what loss leaves to a stream does not scale."""
    def smaller(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{field.name: divided(field.name, getattr(value, field.name))
                                     for field in dataclasses.fields(value)})
        return tuple(map(smaller, value)) if isinstance(value, tuple) else value

    def divided(name: str, value: Any) -> Any:
        counted = name.endswith(("_bps", "_bytes")) and value is not None
        return round(value / factor) if counted else smaller(value)

    if factor <= 0:
        raise ScenarioError(f"{scenario.name}: a path cannot be scaled by {factor:g}: the factor must be positive")
    small: Scenario = smaller(scenario)
    return small


def engine_limits(scenario: Scenario) -> list[str]:
    """What only the program itself can hold back: each reader and each writer. Streams are capped for any program."""
    flags = []
    for name, own in (("read", scenario.read), ("write", scenario.write)):
        if own is not None:
            flags += [f"--limit-{name}", shown(own.worker_bps)]
    return flags


def not_built(scenario: Scenario) -> list[str]:
    """What a real link cannot be made to do; only the simulator plays it."""
    found = []
    for name in ("read", "write"):
        own = getattr(scenario, name)
        if own is not None and own.total_bps is not None:
            found.append(f"{name}.total_rate")
        if any(getattr(each, name) != StageStep() for each in scenario.timeline):
            found.append(f"steps of {name}")
    found += [f"{name}.knee" for name in STAGES if (own := getattr(scenario, name)) is not None and own.knee]
    return found
