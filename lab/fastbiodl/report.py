"""FastBioDL's tables and figures beside ours, from the runs of lab/get: docs/results/fastbiodl.md."""

import math
import statistics
from collections.abc import Mapping, Sequence

from lab.fastbiodl import paper
from lab.get import figures, rotation
from lab.get.bars import DEFAULT, FIG6_MARGINS, PUBLISHED, Found, Runs, best, connections, is_fixed, median_bps, number
from lab.get.cases import ARCHIVE, CAPPED, CASES, FAR, FIG6, FIG6_FTP, Case, over_ftp
from lab.get.ours import fixed, rule
from lab.get.pictures import picture
from lab.ground.results import Record, builds, load
from lab.ground.stats import median_time, shown, spread
from lab.install import describe
from lab.pages import plot
from lab.pages.parts import Bar, measured_bars, measured_table
from lab.pages.published import Published
from lab.pages.published import quotient as published
from lab.shard import Page

NAME = "fastbiodl"
BAYESIAN = rule("bayesian", paper.K)
# Of tables 1 and 3 and figure 4.
PATHS = (CAPPED, *FAR)
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


def bar(there: Runs, where: str, above: str, below: str, wanted: Published, most: float | None = None) -> list[Bar]:
    """One ratio of the paper. Where this link does not leave so much room, that is said instead of judged.

    Its own rule is judged from both sides; the default is not its rule, and may be better.
    """
    value = quotient(there, above, below)
    if value is None:
        return []
    short = most is not None and most < wanted.value
    asked = (f"≥ {wanted.value:.2f}" if above == DEFAULT else wanted.asked) + (
        f" (this link leaves {most:.2f})" if short else "")
    told = f"{value:.2f}" + (f", {wanted.told(value)}" if wanted.told(value) else "")
    met = not wanted.short(value) if above == DEFAULT else wanted.met(value)
    count = min(len(there[above]), len(there[below]))
    return [Bar(f"{where}: `{above}` ÷ `{below}`", asked, told, None if short else met, count)]


def own_set(case: Case, each: paper.Set) -> str:
    """Our set of that shape on a path."""
    return next(own for own in case.sets if own.split("-")[0] == each.ours)


def bars(found: Found) -> list[Bar]:
    made: list[Bar] = []
    for case, each in ((case, each) for case in PATHS for each in paper.TABLE_3):
        own = own_set(case, each)
        there, where = found.get((case.name, own), {}), own if case is CAPPED else f"{own}, {case.rtt_ms:g} ms"
        for k, (mbit, _) in paper.TABLE_1.items():
            if k != paper.K:
                wanted = published((paper.TABLE_1[paper.K][0], None), (mbit, None))
                made += bar(there, f"table 1, {where}", PUBLISHED, rule("gradient", k), wanted)
        made += bar(there, f"figure 4, {where}", PUBLISHED, BAYESIAN, paper.FIGURE_4)
        for mover in (PUBLISHED, DEFAULT):
            for n in (3, 8):
                most = case.possible_mbit / case.goodput_mbit(n)
                made += bar(there, f"table 3, {where}", mover, fixed(n), each.ratio(n), most)
    for case in (*FIG6, *FIG6_FTP):
        there = found.get((case.name, case.sets[0]), {})
        for mover in (PUBLISHED, BAYESIAN, DEFAULT):
            for n, margin in FIG6_MARGINS[case.figure].items():
                most = case.possible_mbit / case.goodput_mbit(n)
                made += bar(there, case.name, mover, fixed(n), Published(margin), most)
    return made


def table_1(found: Found) -> str:
    rows = [[own if case is CAPPED else f"{own}, {case.rtt_ms:g} ms", f"{k:g}", f"{mbit:g}", f"{mean:g}",
             *row(rule("gradient", k), runs, case)[1:]]
            for case in PATHS for own in case.sets for k, (mbit, mean) in paper.TABLE_1.items()
            if (runs := found.get((case.name, own), {}).get(rule("gradient", k)))]
    return measured_table(["set", "k", "the paper's Mbit/s", "its mean concurrency", "ours, Mbit/s", "of possible",
                  "mean connections", "s to 90 %", "n"], rows)


def figure_4(found: Found) -> str:
    rows = []
    for case, own in ((case, own) for case in PATHS for own in case.sets):
        there = found.get((case.name, own), {})
        value = quotient(there, BAYESIAN, PUBLISHED)
        if value is not None:
            rows.append([own if case is CAPPED else f"{own}, {case.rtt_ms:g} ms", f"{1 / paper.FIGURE_4.value:.2f}",
                         f"{value:.2f}", *row(PUBLISHED, there[PUBLISHED], case)[1:4:2],
                         *row(BAYESIAN, there[BAYESIAN], case)[1:4:2],
                         f"{len(there[PUBLISHED])}, {len(there[BAYESIAN])}"])
    return measured_table(["set", "the paper's Bayesian ÷ gradient", "ours", "gradient, Mbit/s", "its connections",
                  "Bayesian, Mbit/s", "its connections", "n"], rows)


def table_3(found: Found, each: paper.Set, case: Case) -> str:
    there = found.get((case.name, own_set(case, each)), {})
    beside: dict[str, paper.Row] = dict(zip((fixed(3), fixed(8), PUBLISHED), each.rows))
    tools = [best(there, lambda name, tool=tool: name.startswith(tool))  # type: ignore[misc]
             for tool in ("aria2c", "rclone", "curl", "wget2")]
    rows = []
    for name in (fixed(3), fixed(8), PUBLISHED, DEFAULT, *(tool for tool in tools if tool)):
        if runs := there.get(name):
            said = beside.get(name)
            own = median_bps(there[name]) / median_bps(there[fixed(3)]) if fixed(3) in there else None
            rows.append([*row(name, runs, case)[:1], str(said or ""),
                         f"{said.each_mbit:.0f}" if said else "", f"{median_bps(runs) / 1e6 / connections(runs):.0f}",
                         f"{said.mbit / each.rows[0].mbit:.2f}" if said else "", "" if own is None else f"{own:.2f}",
                         *row(name, runs, case)[1:]])
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
- At 20 and 60 ms, over {FAR[0].rate_mbit} Mbit/s with {FAR[0].per_connection_mbit} Mbit/s a connection, H43-2GB has the
  paper's 43 files of 13 to 66 MB; H10 and H6 are a ninth and a twenty-fourth of the paper's.
- Its figure 6 is on links of 10 and 20 Gbit/s with an FTP server and NVMe; ours are a fifth to a fourteenth of that,
  with the number of threads that fills them kept, from nginx over HTTP and from vsftpd over FTP, in memory. What is a
  share of a link compares, a rate does not.
"""


NOT_SHOWN = """\
- The archives: no live one was reached, so neither their answers nor their ups and downs over hours are here. The band of
  the paper's figure 5 is of such changes; the ± of its table 3 is beside our rows, and our own range says how steady this
  machine is, nothing more.
- Its programs: prefetch's and pysradb's part in its ratios, beyond their number of connections.
- Disks: everything lies in memory. Sets of more than 5 GB, and runs of more than a minute or two.
- A ratio counts as met from 0.98 of the paper's up to two of its deviations above; where it prints none, 8 % of each mean is
  supposed. The default is not the paper's rule: it is asked for at least the paper's ratio, and may be above it.
"""


def utility(found: Found) -> str:
    """The paper's U = throughput / k^n of each fixed number: where its rules must come to."""
    there = found.get((CAPPED.name, CAPPED.sets[0]), {})
    rates = {number(name): median_bps(runs) / 1e6 for name, runs in there.items() if is_fixed(name)}
    said = ("On a link without an end U is largest at 1/ln k connections, "
            f"{', '.join(f'{1 / math.log(k):.0f} for k = {k:g}' for k in paper.TABLE_1)}; where a link ends before that, "
            f"it is where the link is full. Here, on {CAPPED.sets[0]} (bold: the largest of those that were tried):\n\n")
    top = {k: max(rates, key=lambda n, k=k: rates[n] / k ** n, default=0) for k in paper.TABLE_1}  # type: ignore[misc]
    rows = [[str(n), f"{rates[n]:.0f}", *(f"**{value}**" if top[k] == n else value for k in paper.TABLE_1
                                          for value in [f"{rates[n] / k ** n:.0f}"])] for n in sorted(rates)]
    return said + measured_table(["connections", "Mbit/s", *(f"U, k = {k:g}" for k in paper.TABLE_1)], rows)


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
             if case in {each.name for each in (*PATHS, *FIG6, *FIG6_FTP)} and run.version.startswith("tidegate")]

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
              "## What this does not show\n", NOT_SHOWN,
              "## U by connections\n", utility(found), "## Table 1: k\n", table_1(found),
              "## Figure 4: gradient descent and Bayesian optimisation\n", figure_4(found),
              *image(f"{NAME}-figure-4.svg", "gradient descent and Bayesian optimisation over time"),
              "## Table 3 and figure 5: three data sets\n"]
    for each in paper.TABLE_3:
        parts += [f"### {each.ours}: the shape of {each.title}\n", table_3(found, each, CAPPED),
                  *(line for case in FAR for line in (f"{own_set(case, each)}, {case.title}:\n",
                                                      table_3(found, each, case))),
                  *image(f"{NAME}-{each.ours.lower()}.svg", f"{each.ours} over time")]
    parts += ["### The archives' own downloaders\n",
              f"{ARCHIVE.title[0].upper()}{ARCHIVE.title[1:]}. {ARCHIVE.remark}\n", real_tools(found),
              "## Figure 6: three links\n"]
    for said in paper.FIGURE_6:
        case = CASES[said.case]
        parts += [f"### {case.title}\n", f"{case.remark}\n", figure_6(found, case, said)]
        if picture(found, case):
            parts.append(f"![{case.title}](get-{case.name}.svg)\n")
        over = over_ftp(case)
        parts += ["Over FTP, as the paper's:\n", figure_6(found, over, said)]
        if picture(found, over):
            parts.append(f"![{over.title}](get-{over.name}.svg)\n")
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
