"""What is asked of the service, and what was measured."""

from collections.abc import Mapping
from typing import Any

from lab.eos.found import Found
from lab.eos.gridftp import FIGURE_3, FIGURE_4
from lab.eos.sampled import Sampled, sampled

LONG_S = 10.0


def verdict(met: bool) -> str:
    return "yes" if met else "**no**"


def loaded(load: Mapping[str, Any]) -> list[list[str]]:
    return [["estimate from history, 1,000 connections, 2,000 requests/s: median", "≤ 5 ms", f"{load['median_ms']:.1f} "
                                                                                             "ms",
             str(load["n"]), verdict(load["median_ms"] <= 5 and load["errors"] == 0)],
            ["the same: p99", "≤ 50 ms", f"{load['p99_ms']:.1f} ms", str(load["n"]), verdict(load["p99_ms"] <= 50)],
            ["5,000 connections ramped up at 200/s: errors", "0", str(load["ramped_errors"]), str(load["n"]),
             verdict(load["ramped_errors"] == 0)]]


def queued(queue: Mapping[str, Any]) -> list[list[str]]:
    return [["submitted in batches, each acknowledged after fsync", "≥ 2,000/s", f"{queue['submitted_per_s']:,}/s", "1",
             verdict(queue["submitted_per_s"] >= 2000)],
            [f"a page of 100 rows of {queue.get('jobs', 100_000):,} jobs", "≤ 50 ms",
             f"{queue['page_ms']:.1f} ms (worst {queue['page_worst_ms']:.1f})", "1",
             verdict(queue["page_worst_ms"] <= 50)],
            ["a cancel", "≤ 50 ms", f"{queue['cancel_ms']:.1f} ms (worst {queue['cancel_worst_ms']:.1f})", "1",
             verdict(queue["cancel_worst_ms"] <= 50)],
            [f"the service's memory with {queue.get('jobs', 100_000):,} jobs", "≤ 300 MB", f"{queue['memory_mb']:.0f} "
                                                                                           "MB",
             "1", verdict(queue["memory_mb"] <= 300)]]


def killed(kills: Mapping[str, Any]) -> list[list[str]]:
    good = not kills["lost"] and not kills["wrong"] and not kills["ended_twice"]
    return [[f"kill -9 of the service, {kills['kills']} times under load, {kills['jobs']} jobs",
             "none lost, none ended twice",
             f"{kills['lost']} lost, {kills['wrong']} wrong, {kills['ended_twice']} ended twice "
             f"({kills['begun_again']} begun "
             "again)", "1", verdict(good)]]


def scheduled(jobs: Mapping[str, Any]) -> list[list[str]]:
    rows = [[f"{jobs['jobs']} jobs one after the other, optimized ÷ not", "≥ 1.8", f"{jobs['ratio']:.2f}",
             str(jobs["n"]), verdict(jobs["ratio"] >= 1.8)]]
    if jobs["ratio_overlapping"] is not None:
        rows.append(["the same, jobs overlapping", "", f"{jobs['ratio_overlapping']:.2f}", str(jobs["n"]), ""])
    return rows


def pathed(paths: Mapping[str, Any]) -> list[list[str]]:
    rows = [[f"chosen streams, {kind}: achieved ÷ best of a sweep", "≥ 0.95", f"{row['share']:.3f}",
             str(len(row["streams"])), verdict(row["share"] >= 0.95)]
            for kind, row in paths.get("chosen", {}).items() if "share" in row]
    return rows + [[f"{row['size']}: our own samples and optimized copy against one stream", "sooner",
                    f"{row['ratio']:.2f} times", str(row["n"]), verdict(row["ratio"] > 1)]
                   for row in paths.get("pays", []) if row["plain_s"] > LONG_S]


def figured(number: int, cells: list[Sampled]) -> list[list[str]]:
    """Whether asking paid in each cell where one stream takes long."""
    long = [cell for cell in cells if cell.plain_s > LONG_S]
    rows = []
    for who, all_ratios, judged in (
            ("GridFTP samples, then globus-url-copy", [cell.globus_ratio for cell in long if not cell.declined], True),
            ("the same in cells that the estimator declines, by force",
             [cell.globus_ratio for cell in long if cell.declined], False),
            ("GridFTP samples where the estimator takes them, then tidegate",
             [cell.ours_ratio for cell in long], True)):
        ratios = [ratio for ratio in all_ratios if ratio is not None]
        if ratios:
            sooner = sum(ratio > 1 for ratio in ratios)
            rows.append([f"figure {number}, files of more than {LONG_S:.0f} s: {who}, against one stream",
                         "sooner in each cell" if judged else "",
                         f"{sooner} of {len(ratios)} cells, {min(ratios):.2f} to {max(ratios):.2f} times",
                         str(min(cell.count for cell in long)), verdict(sooner == len(ratios)) if judged else ""])
    return rows


def bars(found: Found) -> list[list[str]]:
    """Rows of what, bar, measured, n, met."""
    rows: list[list[str]] = []
    for name, judge in (("load", loaded), ("queue", queued), ("kills", killed), ("jobs", scheduled), ("paths", pathed)):
        if part := found.parts.get(name):
            rows += judge(part)
    for figure in (FIGURE_3, FIGURE_4):
        rows += figured(figure.number, sampled(found.of(figure.shard)))
    return rows
