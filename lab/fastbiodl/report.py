"""FastBioDL's tables and figures beside ours, from the runs of lab/get: docs/results/fastbiodl.md."""

import statistics
from collections.abc import Mapping, Sequence

from lab.fastbiodl import paper
from lab.get import figures, rotation
from lab.get.bars import DEFAULT, FIG6_MARGINS, PUBLISHED, Found, Runs, best, connections, median_bps
from lab.get.cases import ARCHIVE, CAPPED, CASES, FIG6, Case
from lab.get.ours import fixed, rule
from lab.get.pictures import picture
from lab.ground.results import Record, builds, load
from lab.ground.stats import median_time, shown, spread
from lab.install import describe
from lab.pages import plot
from lab.pages.parts import Bar, measured_bars, measured_table
from lab.shard import Page

NAME = "fastbiodl"
BAYESIAN = rule("bayesian", paper.K)
SECOND_FIGURE = ((DEFAULT, plot.BLUE), (PUBLISHED, plot.ORANGE), (fixed(8), plot.SKY), (fixed(3), plot.BLACK))
FOURTH_FIGURE = ((PUBLISHED, plot.ORANGE), (BAYESIAN, plot.BLUE))
# A rule is there when a second has so much of what is possible.
THERE = 0.9


def seconds_to(run: Record, case: Case) -> float | None:
    steps = figures.staircase(run.notes["samples"], run.bytes)
    return next((t for t, mbit in steps if mbit >= THERE * case.possible_mbit), None)


def soon(runs: Sequence[Record], case: Case) -> str:
    """The median second of having it; never, where most runs had it never."""
    middle = median_time(seconds_to(run, case) for run in runs)
    return "never" if middle is None else f"{middle:.0f}"


def row(name: str, runs: Sequence[Record], case: Case) -> list[str]:
    """One downloader: what it is called, Mbit/s, share of the possible, mean connections, how soon, repeats."""
    rates = spread([run.rate_bps / 1e6 for run in runs])
    return [f"`{name}`", shown(rates, 0), f"{rates.median / case.possible_mbit:.2f}", f"{connections(runs):.1f}",
            soon(runs, case), str(len(runs))]


def quotient(there: Runs, above: str, below: str) -> float | None:
    return median_bps(there[above]) / median_bps(there[below]) if above in there and below in there else None


def bar(there: Runs, where: str, above: str, below: str, wanted: float, most: float | None = None) -> list[Bar]:
    """One ratio of the paper. Where this link does not leave so much room, that is said instead of judged."""
    value = quotient(there, above, below)
    if value is None:
        return []
    short = most is not None and most < wanted
    asked = f"≥ {wanted:.2f}" + (f" (this link leaves {most:.2f})" if short else "")
    count = min(len(there[above]), len(there[below]))
    return [Bar(f"{where}: `{above}` ÷ `{below}`", asked, f"{value:.2f}", None if short else value >= wanted, count)]


def bars(found: Found) -> list[Bar]:
    made: list[Bar] = []
    for own in CAPPED.sets:
        there = found.get((CAPPED.name, own), {})
        for k, (mbit, _) in paper.TABLE_1.items():
            if k != paper.K:
                made += bar(there, f"table 1, {own}", PUBLISHED, rule("gradient", k), paper.TABLE_1[paper.K][0] / mbit)
        made += bar(there, f"figure 4, {own}", PUBLISHED, BAYESIAN, paper.FIGURE_4)
    for each in paper.TABLE_3:
        there = found.get((CAPPED.name, each.ours), {})
        for mover in (PUBLISHED, DEFAULT):
            for n in (3, 8):
                most = CAPPED.possible_mbit / CAPPED.goodput_mbit(n)
                made += bar(there, f"table 3, {each.ours}", mover, fixed(n), each.ratio(n), most)
    for case in FIG6:
        there = found.get((case.name, case.sets[0]), {})
        for mover in (PUBLISHED, DEFAULT):
            for n, wanted in FIG6_MARGINS[case.name].items():
                made += bar(there, case.name, mover, fixed(n), wanted, case.possible_mbit / case.goodput_mbit(n))
    return made


def table_1(found: Found) -> str:
    rows = [[own, f"{k:g}", f"{mbit:g}", f"{mean:g}", *row(rule("gradient", k), runs, CAPPED)[1:]]
            for own in CAPPED.sets for k, (mbit, mean) in paper.TABLE_1.items()
            if (runs := found.get((CAPPED.name, own), {}).get(rule("gradient", k)))]
    return measured_table(["set", "k", "the paper's Mbit/s", "its mean concurrency", "ours, Mbit/s", "of possible",
                  "mean connections", "s to 90 %", "n"], rows)


def figure_4(found: Found) -> str:
    rows = []
    for own in CAPPED.sets:
        there = found.get((CAPPED.name, own), {})
        value = quotient(there, BAYESIAN, PUBLISHED)
        if value is not None:
            rows.append([own, f"{1 / paper.FIGURE_4:.2f}", f"{value:.2f}",
                         *row(PUBLISHED, there[PUBLISHED], CAPPED)[1:4:2], *row(BAYESIAN, there[BAYESIAN], CAPPED)[1:4:2],
                         f"{len(there[PUBLISHED])}, {len(there[BAYESIAN])}"])
    return measured_table(["set", "the paper's Bayesian ÷ gradient", "ours", "gradient, Mbit/s", "its connections",
                  "Bayesian, Mbit/s", "its connections", "n"], rows)


def table_3(found: Found, each: paper.Set) -> str:
    there = found.get((CAPPED.name, each.ours), {})
    beside: dict[str, paper.Row] = dict(zip((fixed(3), fixed(8), PUBLISHED), each.rows))
    tools = [best(there, lambda name, tool=tool: name.startswith(tool))  # type: ignore[misc]
             for tool in ("aria2c", "rclone", "curl", "wget2")]
    rows = []
    for name in (fixed(3), fixed(8), PUBLISHED, DEFAULT, *(tool for tool in tools if tool)):
        if runs := there.get(name):
            said = beside.get(name)
            own = median_bps(there[name]) / median_bps(there[fixed(3)]) if fixed(3) in there else None
            rows.append([*row(name, runs, CAPPED)[:1], str(said or ""),
                         f"{said.each_mbit:.0f}" if said else "", f"{median_bps(runs) / 1e6 / connections(runs):.0f}",
                         f"{said.mbit / each.rows[0].mbit:.2f}" if said else "", "" if own is None else f"{own:.2f}",
                         *row(name, runs, CAPPED)[1:]])
    return measured_table(["ours", "the paper's, Mbit/s", "of one connection", "ours, of one",
                  "÷ its prefetch", "ours ÷ our fixed 3", "Mbit/s", "of possible",
                  "mean connections", "s to 90 %", "n"], rows)


def real_tools(found: Found) -> str:
    there = found.get((ARCHIVE.name, ARCHIVE.sets[0]), {})
    rows = [[*row(name, runs, ARCHIVE)[:4], row(name, runs, ARCHIVE)[5]]
            for name, runs in sorted(there.items(), key=lambda item: -median_bps(item[1]))]
    return measured_table(["downloader", "Mbit/s", "of possible", "mean connections", "n"], rows)


def figure_6(found: Found, case: Case, said: paper.Figure6) -> str:
    there = found.get((case.name, case.sets[0]), {})
    rows = []
    for name, runs in sorted(there.items(), key=lambda item: median_bps(item[1])):
        own = name == PUBLISHED
        paper_share = f"{said.mbit / said.link_mbit:.2f}" if own and said.mbit is not None else ""
        rows.append([*row(name, runs, case)[:3], paper_share, row(name, runs, case)[3],
                     f"{said.concurrency:g}" if own else "", *row(name, runs, case)[4:]])
    return measured_table(["ours", "Mbit/s", "of possible", "the paper's, of its link", "mean connections", "the paper's mean",
                  "s to 90 %", "n"], rows)


PER_CONNECTION = "; ".join(
    f"{each.title.split(',')[0]} {each.rows[2].each_mbit:.0f} Mbit/s a connection against "
    f"{each.rows[0].each_mbit:.0f} and {each.rows[1].each_mbit:.0f}" for each in paper.TABLE_3)
DIFFERENT = f"""\
- The paper downloads from NCBI over the Internet (tables 1 and 3, figures 4 and 5): its path's limits are not known and
  change from run to run. Here the link is {CAPPED.rate_mbit} Mbit/s with {CAPPED.per_connection_mbit} Mbit/s a
  connection for all of them, so twelve fill it and no ratio to a fixed number can exceed twelve through it: ratios of the paper
  above that are shown and not judged.
- Its gain over prefetch and pysradb is not one of numbers: {PER_CONNECTION}.
  Here a connection is worth the same to all, so that only the number counts, which is what a controller chooses.
- Its prefetch and pysradb are other programs, with one connection a file and unpacking of their own; fixed 3 and 8 here
  are the same engine with another number. Real tools are beside them, and the archives' own ones below.
- Its sets have 2 to 56 GB and last minutes. Ours have as many files, between the same smallest and largest in proportion,
  and are all as large as half a minute at the optimum needs, 4.7 GB: H10 and H6 are a fifth and a twelfth of the
  paper's, and H43 is 2.5 times it, with 42 to 190 MB a file where the paper has 13 to 66 MB. Its rule
  begins with one connection and looks for 5 s before it changes anything, so of a short run it loses a larger part: how
  long it takes to {100 * THERE:.0f} % of the possible is in the tables.
- Its figure 6 is on links of 10 and 20 Gbit/s with an FTP server and NVMe; ours are a fifth to a fourteenth of that,
  with the number of threads that fills them kept. What is a share of a link compares, a rate does not.
"""


def pictures(found: Found) -> Mapping[str, str]:
    """Goodput and connections over time of each set, and of the two searches."""
    made = {f"{NAME}-{own.lower()}.svg": picture(found, CAPPED, own, SECOND_FIGURE) for own in CAPPED.sets}
    if any(BAYESIAN in found.get((CAPPED.name, own), {}) for own in CAPPED.sets[:1]):
        made[f"{NAME}-figure-4.svg"] = picture(found, CAPPED, CAPPED.sets[0], FOURTH_FIGURE)
    return {name: svg for name, svg in made.items() if svg is not None}


def made(records: Sequence[Record]) -> Page:
    found = figures.grouped(records)
    drawn = pictures(found)
    about = [run for (case, _), there in found.items() for runs in there.values() for run in runs
             if case in (CAPPED.name, *(each.name for each in FIG6)) and run.version.startswith("tidegate")]

    def image(name: str, alt: str) -> list[str]:
        return [f"![{alt}]({name})\n"] if name in drawn else []

    parts = ["# FastBioDL\n", f"Made by `python3 -m lab report {NAME}` from the runs of [get.md](get.md), where links, "
             "sets and tools are described; do not edit by hand. FastBioDL (Swargo, Arslan, Arifuzzaman) downloads with a "
             "number of connections that gradient descent chooses, for U = throughput / k^connections.\n"]
    if about:
        parts.append(f"{describe()}. {builds(about)}, {max(run.time for run in about)[:10]}. Its rule in this engine "
                     f"is `{PUBLISHED}`, with probes of 5 s and at most 15 connections, as its authors ran it; "
                     f"`{DEFAULT}` is the default. Medians with the range; ratios are ratios of medians.\n")
    rows = bars(found)
    parts += ["## The paper's ratios\n", measured_bars(rows), "## What differs\n", DIFFERENT,
              "## Table 1: k\n", table_1(found),
              "## Figure 4: gradient descent and Bayesian optimisation\n", figure_4(found),
              *image(f"{NAME}-figure-4.svg", "gradient descent and Bayesian optimisation over time"),
              "## Table 3 and figure 5: three data sets\n"]
    for each in paper.TABLE_3:
        parts += [f"### {each.ours}: the shape of {each.title}\n", table_3(found, each),
                  *image(f"{NAME}-{each.ours.lower()}.svg", f"{each.ours} over time")]
    parts += ["### The archives' own downloaders\n",
              f"{ARCHIVE.title[0].upper()}{ARCHIVE.title[1:]}. {ARCHIVE.remark}\n", real_tools(found),
              "## Figure 6: three links\n"]
    for said in paper.FIGURE_6:
        case = CASES[said.case]
        parts += [f"### {case.title}\n", f"{case.remark}\n", figure_6(found, case, said)]
        if picture(found, case):
            parts.append(f"![{case.title}](get-{case.name}.svg)\n")
    parts.append(f"Mean of the default's ratios to `{PUBLISHED}`: {mean_gain(found)}.\n")
    return Page(NAME, "\n".join(parts), drawn)


def mean_gain(found: Found) -> str:
    values = [value for there in found.values() if (value := quotient(there, DEFAULT, PUBLISHED)) is not None]
    if not values:
        return "not measured"
    return f"{statistics.geometric_mean(values):.2f}, geometric, of {len(values)} sets and links"


def page() -> Page:
    """It measures nothing of its own: it is made from the shards of downloads."""
    return made([record for record in load(rotation.RESULTS) if record.scale == 1.0])
