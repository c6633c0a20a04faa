"""A scenario (docs/scenarios.md) read from its file, scaled, and told to the program: what a real link is built from."""

import dataclasses
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.links.schema import (STAGES, Bursts, Data, Expected, Knee, LinkPath, Others, Scenario, Stage, StageStep,
                              Staging, Step)
from lab.links.tables import ScenarioError, Table
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
    name = top.text("name")
    plain = name.isascii() and name == name.lower() and name.replace("-", "x").isalnum()
    top.that(plain, "name", "must be lower-case letters, digits and hyphens")
    background = top.table("background")
    link = link_path(top.table("link", required=True))
    scenario = Scenario(
        name, top.text("description"),
        network=stage(top.table("network", required=True)),
        link=link,
        read=stage(top.table("read")) if top.has("read") else None,
        write=stage(top.table("write")) if top.has("write") else None,
        staging=staging(top.table("staging")),
        noise=single(top.table("noise"), "throughput"),
        others=others(background),
        lag_s=lag(top.table("decision")),
        data=data(top.table("dataset")) if top.has("dataset") else None,
        timeline=tuple(step(table) for table in top.tables("timeline")),
        expected=expected(top.table("expected")))
    top.done()
    last = -1.0
    for i, each in enumerate(scenario.timeline):
        top.that(each.at_s > last, f"timeline[{i}].at", "must be later than the change before it")
        last = each.at_s
        for absent in (s for s in STAGES if getattr(scenario, s) is None and getattr(each, s) != StageStep()):
            raise top.fail(f"timeline[{i}].{absent}", "changes a stage the scenario does not have")
    burst = scenario.others.bursts.rate_bps if scenario.others.bursts else 0
    for moment in scenario.moments:
        background.that(moment.others.rate_bps + burst < moment.link.rate_bps, "rate",
                        "must always be less than link.rate, bursts included")
    return scenario


def stage(table: Table) -> Stage:
    knee = table.table("knee")
    found = Stage(table.positive("worker_rate"), table.positive("total_rate", None),
                  table.whole("min_workers", 1, least=1), table.whole("max_workers", 64, least=1),
                  Knee(knee.whole("workers"), knee.number("slope", None)) if table.has("knee") else None,
                  table.duration("ramp_up", 0.0))
    table.that(found.knee is None or found.knee.slope is not None, "knee.slope", "is missing")
    table.that(found.min_workers <= found.max_workers, "max_workers", "must not be less than min_workers")
    for each in (knee, table):
        each.done()
    return found


def link_path(table: Table) -> LinkPath:
    found = LinkPath(table.positive("rate"), table.duration("rtt", 0.0), table.number("loss", 0.0, below=1),
                     table.number("surplus_loss", 0.0, below=1), table.number("ramp_rtts", 0.0))
    table.done()
    return found


def staging(table: Table) -> Staging:
    found = Staging(table.size("sender", 64 << 20), table.size("receiver", 64 << 20))
    table.done()
    return found


def single(table: Table, key: str) -> float:
    share: float = table.number(key, 0.0, below=1)
    table.done()
    return share


def lag(table: Table) -> float:
    seconds: float = table.duration("lag", 0.0)
    table.done()
    return seconds


def others(table: Table) -> Others:
    bursts = table.table("bursts")
    found = Others(table.rate("rate", 0), table.whole("streams", 0),
                   Bursts(bursts.rate("rate", 0), bursts.whole("streams", 0), bursts.duration("on"),
                          bursts.duration("off")) if table.has("bursts") else None)
    if found.bursts is not None:
        bursts.that(found.bursts.on_s >= 1e-3, "on", "must be at least 1ms")
        bursts.that(found.bursts.off_s >= 1e-3, "off", "must be at least 1ms")
    for each in (bursts, table):
        each.done()
    return found


def data(table: Table) -> Data:
    found = Data(table.size("size"), table.whole("files", 1, least=1))
    table.that(found.size_bytes > 0, "size", "must be more than 0")
    table.done()
    return found


def step(table: Table) -> Step:
    stages = {}
    for name in STAGES:
        own = table.table(name)
        stages[name] = StageStep(own.positive("worker_rate", None), own.positive("total_rate", None))
        own.done()
    link, background = table.table("link"), table.table("background")
    found = Step(table.duration("at"), **stages, rate_bps=link.positive("rate", None),
                 rtt_s=link.duration("rtt", None), loss=link.number("loss", None, below=1),
                 others_bps=background.rate("rate", None), others_streams=background.whole("streams", None))
    for each in (link, background, table):
        each.done()
    return found


def expected(table: Table) -> Expected:
    best = table.table("optimum")
    optimum = tuple(best.whole(name, least=1) for name in STAGES) if table.has("optimum") else None
    share = table.number("throughput_share_min", None)
    table.that(share is None or share <= 1, "throughput_share_min", "must be from 0 to 1")
    found = Expected(optimum, table.positive("goodput", None), share, table.whole("epochs_to_95_max", None, least=1))
    for each in (best, table):
        each.done()
    return found


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
