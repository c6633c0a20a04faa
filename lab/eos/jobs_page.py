"""Figures 6 to 8 on the page: the paper's finding, then ours, with pictures."""

from collections.abc import Callable, Mapping, Sequence

from lab.eos.found import Found, middle
from lab.eos.jobs import SCALE, WAYS
from lab.eos.samples_page import NOT_YET
from lab.eos.scheduled import Job, counts, first, moving_bps, of_size, sizes_in, total_bps, waited_s, whole_bps
from lab.eos.site import FAST
from lab.ground.results import Record
from lab.pages import curve
from lab.pages.parts import csv, mbit, table
from lab.pages.plot import BLUE, ORANGE, SKY

Runs = Mapping[str, Sequence[Record]]
PAPER = ("In the paper, 100 to 500 jobs of 100 MB to 5 GB came one after the other, each waiting for the one before "
         "it. Together they reached 250 Mbit/s plain and 450 optimized (figure 6); their transfers alone 300 and 700 "
         "(figure 7), while the wait in the queue, which holds the samples, was slightly longer optimized and "
         "negligible; by size (figure 8) plain rose to 300 Mbit/s at 512 MB and stayed, optimized came to about 800 at "
         "1 GB and 650 above.")
COLOURS = {"plain": ORANGE, "optimized": BLUE, "overlapping": SKY}


def quotient(value: Mapping[str, float], name: str) -> str:
    return f"{value[name] / value['plain']:.2f}" if name in value and value.get("plain") else ""


def by_count(runs: Runs) -> tuple[list[str], list[list[str]]]:
    """Figures 6 and 7: after so many jobs."""
    names = [name for name in WAYS if name in runs]
    heads = ["jobs", *[f"{name}, Mbit/s" for name in names], "optimized ÷ plain", "overlapping ÷ plain",
             *[f"transfer alone: {name}" for name in names[:2]], "optimized ÷ plain, transfer alone",
             *[f"mean wait: {name}, s" for name in names[:2]]]
    rows = []
    for count in counts(runs[names[0]][0]):
        total = {name: middle(runs[name], lambda run: total_bps(run, count)) for name in names}
        moving = {name: middle(runs[name], lambda run: moving_bps(first(run, count))) for name in names[:2]}
        waits = [middle(runs[name], lambda run: waited_s(first(run, count))) for name in names[:2]]
        rows.append([str(count), *[mbit(total[name]) for name in names], quotient(total, "optimized"),
                     quotient(total, "overlapping"), *[mbit(moving[name]) for name in names[:2]],
                     quotient(moving, "optimized"), *[f"{wait:.2f}" for wait in waits]])
    return heads, rows


def by_size(runs: Runs) -> tuple[list[str], list[list[str]]]:
    """Figure 8: jobs of each size."""
    names = [name for name in WAYS if name in runs][:2]
    heads = ["size in the paper", "here, MB", *[f"{name}: transfer alone, Mbit/s" for name in names],
             "optimized ÷ plain", *[f"{name}: with its wait, Mbit/s" for name in names],
             *[f"{name}: mean wait, s" for name in names], "jobs in a run"]
    rows = []
    for label, size in sizes_in(runs):
        def of(name: str, value: Callable[[Sequence[Job]], float]) -> float:
            return middle(runs[name], lambda run: value(of_size(run, size)))

        moving = {name: of(name, moving_bps) for name in names}
        rows.append([label, f"{size / 1e6:g}", *[mbit(moving[name]) for name in names], quotient(moving, "optimized"),
                     *[mbit(of(name, whole_bps)) for name in names], *[f"{of(name, waited_s):.2f}" for name in names],
                     str(len(of_size(runs[names[0]][0], size)))])
    return heads, rows


def pictures(runs: Runs, beside: dict[str, str]) -> list[str]:
    shown = []
    names = [name for name in WAYS if name in runs]
    if len(marks := counts(runs[names[0]][0])) > 1:
        for number, title, value in ((6, "all together", total_bps),
                                     (7, "transfers alone", lambda run, count: moving_bps(first(run, count)))):
            # Where jobs overlap, transfers alone share the path with each other.
            lines = [curve.Curve(name, COLOURS[name], [(count, middle(runs[name], lambda run: value(run, count)) / 1e6)
                                                       for count in marks])
                     for name in (names if number == 6 else names[:2])]
            beside[f"eos-figure{number}.svg"] = curve.draw(f"EOS figure {number}: {title}", lines, "jobs", "Mbit/s")
            shown.append(f"![{title}: Mbit/s against jobs](eos-figure{number}.svg)\n")
    if len(sizes := sizes_in(runs)) > 1:
        def reached(name: str, size: int) -> float:
            return middle(runs[name], lambda run: moving_bps(of_size(run, size))) / 1e6

        lines = [curve.Curve(name, COLOURS[name], [(size / 1e6, reached(name, size)) for _, size in sizes])
                 for name in names[:2]]
        beside["eos-figure8.svg"] = curve.draw("EOS figure 8: transfers by size", lines, "MB here", "Mbit/s",
                                               log_x=True)
        shown.append("![transfers alone: Mbit/s against size](eos-figure8.svg)\n")
    return shown


def section(found: Found, beside: dict[str, str]) -> str:
    jobs = found.parts.get("jobs", {})
    head = f"## Figures 6 to 8: jobs through the scheduler\n\n{PAPER}\n\n"
    runs: Runs = jobs.get("runs", {})
    if not runs:
        return head + NOT_YET
    explained = (f"Here: {FAST}; sizes are the paper's divided by {SCALE}, drawn at random from a seed; each job moves "
                 "a file of its own into memory, verified. Plain is one stream, optimized asks the estimator first (a "
                 "known answer does) and adapts, both one job at a time; overlapping is optimized with eight at a "
                 "time. Throughput is bits over the time from the first submission to the last end. The wait of a job "
                 "runs from the end of the one before it until its transfer begins, samples included. The first 100 "
                 "jobs of a run are what a run of 100 is.\n\n")
    heads, rows = by_count(runs)
    size_heads, size_rows = by_size(runs)
    beside["eos-figure6-7.csv"], beside["eos-figure8.csv"] = csv(heads, rows), csv(size_heads, size_rows)
    return (f"{head}{explained}n = {jobs['n']}.\n\n{table(heads, rows)}By size (figure "
            f"8):\n\n{table(size_heads, size_rows)}"
            + "\n".join(pictures(runs, beside)))
