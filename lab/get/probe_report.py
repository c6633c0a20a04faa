"""What the probes of `tidegate get` came to, as bars and in words."""

from collections.abc import Mapping
from typing import Any

from lab.movers.report import table
from lab.pages.parts import Bar

MB = 1_000_000
MILLION_MB = 300
# Memory for twenty gigabytes may exceed that for a small file by as much as for noise.
AS_SMALL_MB = 32
HANDFUL = 10
KILLED = -9

Probes = Mapping[str, Mapping[str, Any]]


def million_bars(probes: Probes) -> list[Bar]:
    return [Bar(f"probe: {outcome['urls']:,} URLs ({outcome['kind']}): peak memory", f"≤ {MILLION_MB} MB",
                f"{outcome['all']['peak_bytes'] / MB:.0f} MB", outcome["all"]["peak_bytes"] <= MILLION_MB * MB, 1)
            for name, outcome in probes.items() if name.startswith("million")]


def huge_bars(probes: Probes) -> list[Bar]:
    outcome = probes.get("huge")
    if outcome is None:
        return []
    first, second = outcome["huge"]["runs"]
    small = outcome["small"]["runs"][0]["peak_bytes"]
    most = max(first["peak_bytes"], second["peak_bytes"])
    what = f"one file of {outcome['bytes'] / 1e9:.0f} GB"
    return [Bar(f"probe: {what}: completes after kill -9 half way", "yes",
                "yes" if (first["status"], second["status"]) == (KILLED, 0) else
                f"status {first['status']}, then {second['status']}",
                (first["status"], second["status"]) == (KILLED, 0), 1),
            Bar(f"probe: {what}: peak memory beyond a small file's", f"≤ {AS_SMALL_MB} MB",
                f"{(most - small) / MB:.0f} MB ({most / MB:.0f} MB)", most - small <= AS_SMALL_MB * MB, 1)]


def resolve_bars(probes: Probes) -> list[Bar]:
    outcome = probes.get("resolve")
    if outcome is None:
        return []
    return [Bar(f"probe: {outcome['accessions']:,} accessions: requests", f"≤ {HANDFUL}", str(outcome["requests"]),
                outcome["requests"] <= HANDFUL, 1)]


def probe_bars(probes: Probes) -> list[Bar]:
    return [*million_bars(probes), *huge_bars(probes), *resolve_bars(probes)]


def probes_section(probes: Probes) -> list[str]:
    if not probes:
        return []
    rows = []
    for name, outcome in probes.items():
        if name.startswith("million"):
            few, all_ = outcome["few"], outcome["all"]
            ended = "was stopped" if all_["stopped"] else f"ended with status {all_['status']}"
            rows.append([f"{outcome['urls']:,} URLs, {outcome['kind']}",
                         f"peak {all_['peak_bytes'] / MB:.0f} MB ({few['peak_bytes'] / MB:.0f} MB for {few['urls']:,}); "
                         f"{all_['files']:,} files in {all_['seconds']:.0f} s, then {ended}"])
        elif name == "huge":
            first, second = outcome["huge"]["runs"]
            rows.append([f"{outcome['bytes'] / 1e9:.1f} GB, killed half way",
                         f"{first['seconds']:.0f} s to the kill, {second['seconds']:.0f} s for the rest; sent again at "
                         f"most {outcome['huge']['refetched_bytes'] / MB:.0f} MB; peaks "
                         f"{first['peak_bytes'] / MB:.0f} and {second['peak_bytes'] / MB:.0f} MB, "
                         f"{outcome['small']['runs'][0]['peak_bytes'] / MB:.0f} MB for a file of "
                         f"{outcome['small']['bytes'] / MB:.0f} MB"])
        elif name == "resolve":
            rows.append([f"{outcome['accessions']:,} accessions", f"{outcome['requests']} requests, "
                         f"{outcome['seconds']:.2f} s from start to exit"])
    return ["## Probes\n", "On a link without limits. Tiny URLs answer with nine bytes, missing ones with 404; the huge "
            "file is sparse, with a random stamp in every mebibyte, and goes to a disk.\n",
            table(["probe", "outcome"], rows)]
