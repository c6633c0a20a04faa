"""docs/results/eos.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from lab import install
from lab.movers.report import table
from lab.pages.parts import BAR_HEADS


def verdict(met: bool) -> str:
    return "yes" if met else "no"


def mbit(bps: float) -> str:
    return f"{bps / 1e6:.0f}"


def several(values: Sequence[float], shown: str = "{:.0f}") -> str:
    return ", ".join(shown.format(value) for value in values)


def bars(found: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    if load := found.get("load"):
        rows += [["estimate from history, 1,000 connections, 2,000 requests/s: median", "≤ 5 ms",
                  f"{load['median_ms']:.1f} ms", verdict(load["median_ms"] <= 5 and load["errors"] == 0)],
                 ["the same: p99", "≤ 50 ms", f"{load['p99_ms']:.1f} ms", verdict(load["p99_ms"] <= 50)],
                 ["5,000 connections ramped up at 200/s: errors", "0", str(load["ramped_errors"]),
                  verdict(load["ramped_errors"] == 0)]]
    if queue := found.get("queue"):
        rows += [["submitted in batches, each acknowledged after fsync", "≥ 2,000/s",
                  f"{queue['submitted_per_s']:,}/s", verdict(queue["submitted_per_s"] >= 2000)],
                 ["a page of 100 rows of 100,000 jobs", "≤ 50 ms",
                  f"{queue['page_ms']:.1f} ms (worst {queue['page_worst_ms']:.1f})",
                  verdict(queue["page_worst_ms"] <= 50)],
                 ["a cancel", "≤ 50 ms", f"{queue['cancel_ms']:.1f} ms (worst {queue['cancel_worst_ms']:.1f})",
                  verdict(queue["cancel_worst_ms"] <= 50)],
                 ["the service's memory with 100,000 jobs", "≤ 300 MB", f"{queue['memory_mb']:.0f} MB",
                  verdict(queue["memory_mb"] <= 300)]]
    if kills := found.get("kills"):
        rows.append([f"kill -9 of the service, {kills['kills']} times under load, {kills['jobs']} jobs", "none lost, none ended "
                     "twice", f"{kills['lost']} lost, {kills['wrong']} wrong, {kills['ended_twice']} ended twice "
                     f"({kills['begun_again']} begun again)",
                     verdict(not kills["lost"] and not kills["wrong"] and not kills["ended_twice"])])
    if jobs := found.get("jobs"):
        rows += [[f"{jobs['jobs']} jobs one after the other, optimized ÷ not (n = {jobs['n']})", "≥ 1.8",
                  f"{jobs['ratio']:.2f}", verdict(jobs["ratio"] >= 1.8)],
                 ["the same, jobs overlapping", "", f"{jobs['ratio_overlapping']:.2f}", ""]]
    for kind, row in found.get("paths", {}).get("chosen", {}).items():
        if "share" in row:
            rows.append([f"chosen streams, {kind}: achieved ÷ best of a sweep", "≥ 0.95", f"{row['share']:.3f}",
                         verdict(row["share"] >= 0.95)])
    for row in found.get("paths", {}).get("pays", []):
        if row["plain_s"] > 10:
            rows.append([f"{row['size']}: sampling and optimized transfer against one stream", "sooner",
                         f"{row['ratio']:.2f} times", verdict(row["ratio"] > 1)])
    return rows


def page(found: Mapping[str, Any], version: str) -> str:
    parts = ["# Estimates and the service\n\nMade by `python3 -m lab report eos`; do not edit by hand.\n",
             f"{install.describe()}. {version}.\n", "## Bars\n", table(BAR_HEADS, [[*row[:3], "", row[3]] for row in bars(found)]),
             "How well the models predict is in [models.md](models.md).\n"]
    if paths := found.get("paths"):
        parts += [f"## The number of streams that is advised\n\nTwo network namespaces, {paths['link_mbit']} Mbit/s, "
                  f"{paths['cap_mbit']} Mbit/s a connection (eBPF pacing), TCP cubic. The sweep is by hand with the "
                  "same tool; the advice is asked for beside it.\n",
                  table(["sampler", "best of the sweep", "its Mbit/s", "advised", "Mbit/s predicted",
                         "Mbit/s achieved", "achieved ÷ best", "cost in ms"],
                        [[kind, str(row["best"]), mbit(row["best_bps"]), several(row["streams"]),
                          several([bps / 1e6 for bps in row["predicted_bps"]]),
                          several([bps / 1e6 for bps in row["achieved_bps"]]), f"{row['share']:.3f}",
                          several(row["cost_ms"])] if "share" in row else [kind, row["error"], *[""] * 6]
                         for kind, row in paths["chosen"].items()]),
                  "## Whether asking pays (the paper's figures 3 and 4, scaled)\n\nOne file into memory, verified. "
                  "Plain is one stream; optimized is the estimate and then the transfer, which begins with the "
                  "advised number and adapts.\n",
                  table(["size", "plain, s", "estimate, s", "estimate and transfer, s", "streams", "plain ÷ optimized",
                         "n"],
                        [[row["size"], f"{row['plain_s']:.1f}", f"{row['estimate_s']:.1f}",
                          f"{row['optimized_s']:.1f}", str(row["streams"]), f"{row['ratio']:.2f}", str(row["n"])]
                         for row in paths["pays"]])]
    if load := found.get("load"):
        parts.append(f"## Under load\n\nAn open loop: each request counts from when it was due. {load['rate_per_s']:.0f} "
                     f"requests/s reached, worst {load['worst_ms']:.1f} ms, {load['errors']} errors; "
                     f"{load['ramped_answered']} answers while connections were ramped up; the service took "
                     f"{load['memory_mb']:.0f} MB at most. Service and load share two cores; n = {load['n']}.\n")
    return "\n".join(parts)
