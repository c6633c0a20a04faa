"""What is asked of the service, and what was measured."""

from collections.abc import Mapping
from typing import Any

from lab.eos.found import Found
from lab.eos.gridftp import FIGURE_3, FIGURE_4
from lab.eos.sampled import Sampled, sampled
from lab.pages.parts import Bar

LONG_S = 10.0


def loaded(load: Mapping[str, Any]) -> list[Bar]:
    n = load["n"]
    return [Bar("estimate from history, 1,000 connections, 2,000 requests/s: median", "≤ 5 ms",
                f"{load['median_ms']:.1f} ms", load["median_ms"] <= 5 and load["errors"] == 0, n),
            Bar("the same: p99", "≤ 50 ms", f"{load['p99_ms']:.1f} ms", load["p99_ms"] <= 50, n),
            Bar("5,000 connections ramped up at 200/s: errors", "0", str(load["ramped_errors"]),
                load["ramped_errors"] == 0, n)]


def queued(queue: Mapping[str, Any]) -> list[Bar]:
    jobs = queue.get("jobs", 100_000)
    timed = [Bar(what, "≤ 50 ms", f"{queue[f'{key}_ms']:.1f} ms (worst {queue[f'{key}_worst_ms']:.1f})",
                 queue[f"{key}_worst_ms"] <= 50, 1)
             for what, key in ((f"a page of 100 rows of {jobs:,} jobs", "page"), ("a cancel", "cancel"))]
    return [Bar("submitted in batches, each acknowledged after fsync", "≥ 2,000/s", f"{queue['submitted_per_s']:,}/s",
                queue["submitted_per_s"] >= 2000, 1), *timed,
            Bar(f"the service's memory with {jobs:,} jobs", "≤ 300 MB", f"{queue['memory_mb']:.0f} MB",
                queue["memory_mb"] <= 300, 1)]


def killed(kills: Mapping[str, Any]) -> list[Bar]:
    return [Bar(f"kill -9 of the service, {kills['kills']} times under load, {kills['jobs']} jobs",
                "none lost, none ended twice",
                f"{kills['lost']} lost, {kills['wrong']} wrong, {kills['ended_twice']} ended twice "
                f"({kills['begun_again']} begun again)",
                not kills["lost"] and not kills["wrong"] and not kills["ended_twice"], 1)]


def scheduled(jobs: Mapping[str, Any]) -> list[Bar]:
    bars = [Bar(f"{jobs['jobs']} jobs one after the other, optimized ÷ not", "≥ 1.8", f"{jobs['ratio']:.2f}",
                jobs["ratio"] >= 1.8, jobs["n"])]
    if jobs["ratio_overlapping"] is not None:
        bars.append(Bar("the same, jobs overlapping", "", f"{jobs['ratio_overlapping']:.2f}", None, jobs["n"]))
    return bars


def pathed(paths: Mapping[str, Any]) -> list[Bar]:
    return [*(Bar(f"chosen streams, {kind}: achieved ÷ best of a sweep", "≥ 0.95", f"{row['share']:.3f}",
                  row["share"] >= 0.95, len(row["streams"])) for kind, row in paths["chosen"].items()),
            *(Bar(f"{row['size']}: our own samples and optimized copy against one stream", "sooner",
                  f"{row['ratio']:.2f} times", row["ratio"] > 1, row["n"])
              for row in paths["pays"] if row["plain_s"] > LONG_S)]


def figured(number: int, cells: list[Sampled]) -> list[Bar]:
    """Whether asking paid in each cell where one stream takes long."""
    long = [cell for cell in cells if cell.plain_s > LONG_S]
    bars = []
    for who, all_ratios, judged in (
            ("GridFTP samples, then globus-url-copy", [cell.globus_ratio for cell in long if not cell.declined], True),
            ("the same in cells that the estimator declines, by force",
             [cell.globus_ratio for cell in long if cell.declined], False),
            ("GridFTP samples where the estimator takes them, then tidegate",
             [cell.ours_ratio for cell in long], True)):
        ratios = [ratio for ratio in all_ratios if ratio is not None]
        if ratios:
            sooner = sum(ratio > 1 for ratio in ratios)
            bars.append(Bar(f"figure {number}, files of more than {LONG_S:.0f} s: {who}, against one stream",
                            "sooner in each cell" if judged else "",
                            f"{sooner} of {len(ratios)} cells, {min(ratios):.2f} to {max(ratios):.2f} times",
                            sooner == len(ratios) if judged else None, min(cell.count for cell in long)))
    return bars


def bars(found: Found) -> list[Bar]:
    judges = {"load": loaded, "queue": queued, "kills": killed, "jobs": scheduled, "paths": pathed}
    return [*(bar for name, judge in judges.items() if name in found.parts for bar in judge(found.parts[name])),
            *(bar for figure in (FIGURE_3, FIGURE_4) for bar in figured(figure.number, sampled(found.of(figure.shard))))]
