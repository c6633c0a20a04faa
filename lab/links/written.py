"""A scenario as the TOML text that `tidegate train` and `tidegate simulate` read (docs/scenarios.md)."""

from collections.abc import Iterable, Mapping

from lab.links.scenario import STAGES, Scenario, Stage, StageStep

# A key with its value as it is written; what holds by default is left out.
Lines = Mapping[str, str | None]


def bps(value: int | None) -> str | None:
    return None if value is None else f'"{value}bit/s"'


def size(value: int) -> str:
    return f'"{value}B"'


def lasting(value_s: float | None) -> str | None:
    return None if value_s is None else f'"{value_s:.6f}s"'


def plain(value: float | None) -> str | None:
    return None if value is None else repr(value)


def table(head: str, lines: Lines) -> str:
    body = "".join(f"{key} = {value}\n" for key, value in lines.items() if value is not None)
    return f"\n{head}\n{body}" if body else ""


def stage(own: Stage) -> Lines:
    knee = own.knee
    return {"worker_rate": bps(own.worker_bps), "total_rate": bps(own.total_bps), "min_workers": str(own.min_workers),
            "max_workers": str(own.max_workers), "ramp_up": lasting(own.ramp_up_s),
            "knee.workers": str(knee.workers) if knee else None, "knee.slope": plain(knee.slope) if knee else None}


def steps(scenario: Scenario) -> Iterable[Lines]:
    for step in scenario.timeline:
        stages = {f"{name}.{key}": bps(value) for name in STAGES for own in [getattr(step, name)] if own != StageStep()
                  for key, value in (("worker_rate", own.worker_bps), ("total_rate", own.total_bps))}
        yield {"at": lasting(step.at_s), **stages, "link.rate": bps(step.rate_bps), "link.rtt": lasting(step.rtt_s),
               "link.loss": plain(step.loss), "background.rate": bps(step.others_bps),
               "background.streams": None if step.others_streams is None else str(step.others_streams)}


def toml(scenario: Scenario) -> str:
    """All but what is expected: that is for tests."""
    link, others = scenario.link, scenario.others
    quoted = scenario.description.replace("\\", "\\\\").replace('"', '\\"')
    parts = [f'name = "{scenario.name}"\ndescription = "{quoted}"\n']
    parts += [table(f"[{name}]", stage(own)) for name in STAGES if (own := getattr(scenario, name)) is not None]
    parts.append(table("[link]", {"rate": bps(link.rate_bps), "rtt": lasting(link.rtt_s), "loss": plain(link.loss),
                                  "surplus_loss": plain(link.surplus_loss), "ramp_rtts": plain(link.ramp_rtts)}))
    parts.append(table("[staging]", {"sender": size(scenario.staging.sender_bytes),
                                     "receiver": size(scenario.staging.receiver_bytes)}))
    parts.append(table("[noise]", {"throughput": plain(scenario.noise)}))
    parts.append(table("[background]", {"rate": bps(others.rate_bps), "streams": str(others.streams)}))
    if (bursts := others.bursts) is not None:
        parts.append(table("[background.bursts]", {"rate": bps(bursts.rate_bps), "streams": str(bursts.streams),
                                                   "on": lasting(bursts.on_s), "off": lasting(bursts.off_s)}))
    parts.append(table("[decision]", {"lag": lasting(scenario.lag_s)}))
    if scenario.data is not None:
        parts.append(table("[dataset]", {"size": size(scenario.data.size_bytes), "files": str(scenario.data.files)}))
    return "".join([*parts, *(table("[[timeline]]", lines) for lines in steps(scenario))])
