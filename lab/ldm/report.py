"""The page about LDM: its table II, figures 3 and 4 and its training, each beside ours."""

import statistics
from collections.abc import Sequence

from lab.grid import exploring
from lab.grid.figures import Found, found_in, found_of, medians, runs_of
from lab.grid.remarks import default_bars, failures, measured_on
from lab.grid.show import case_table, over_time, raw
from lab.ground.results import Record
from lab.ground.stats import spread
from lab.ldm import bars, cases, paper
from lab.pages.parts import image, mbit, measured_bars, measured_table, seconds, table
from lab.shard import Page, known
from lab.training import HEADS, Learned, courses_in, rows
from lab.training import raw as raw_training

NAME = "ldm"
TABLE_TWO = {dataset: f"ldm-table2-{dataset.lower()}" for dataset in "ABCD"}
FOUR, TRAINING, EXPLORED = "ldm-figure4", "ldm-training", "ldm-explored"
GRIDS = (*TABLE_TWO.values(), FOUR)
COMMANDS = "".join(f"python3 -m lab run {shard}\n" for shard in (*GRIDS, EXPLORED, TRAINING))

INTRODUCTION = """\
LDM moves a file by as many streams as it has chunks, keeps connections open, and lets a policy that was trained in a
simulator of the path choose how many there are. Its table II compares that on four data sets between New York and
CERN, memory to memory. Here the rates are a fortieth and the round trip is the same: namespaces joined by a relay of
90 ms, a link of 1 Gbit/s, and on A and B at most 75 Mbit/s a connection, whatever the program (a pacing rate set by
eBPF), so that 40/3 streams fill the link as they did there. What the link carries for content is 956 Mbit/s. Data
lies on tmpfs and arrives in files that do not exist before; every run is judged by content. A run ends after 90 s,
and what arrived by then counts; the paper's took minutes, so that climbing weighs more here.

"""

BARE = """\
The paper's Falcon and DRL have neither chunks nor pipelining: every file has one connection and every connection one
file. `bare` is that: the same rule with `--chunking off --pipelining off`. Without the word the rule runs in our
engine like all others, so that what is the rule and what the engine can be told apart. `ldm` draws its action as
published; `ldm, most likely action` is the same policy without drawing. Falcon, LDM-GD and Globus need no training;
DRL and LDM were trained for this very path. What a connection moves on C and D, where nothing throttles it, is not
written down anywhere: there they were trained for what `tidegate explore` finds in two minutes, as the paper's were
after five.

"""

WANTED = """\
A ratio is met from 0.98 of the paper's up to the paper's and two of its standard deviations. One beyond that is
"above the paper's": it repeats nothing, and the other mover does worse here than it did there.

"""

NOT_SHOWN = """\
- The paper's rates: a link of 40 Gbit/s, hosts of eight cores and what they cost. Here two cores carry both ends.
- Its other programs. Falcon and DRL are their rules in our engine; how their own engines read, send and write is not
  known, and of Globus this is another version on another path.
- Sets of 128 GB to 1 TB. Runs here take half a minute or a minute and a half, so the start weighs more, and no drift of
  a path over minutes is met.
- Loss and other traffic: nobody else uses this link, and nothing is lost but in its queue.

"""

SHARES = """\
What each ratio is made of: the rule (LDM against the same rule in our engine) and the engine (that rule with chunks
and pipelining against it without). The link's most is what LDM could at most be against what the other got here.

"""

FILES = """\
Small files are round trips: a new connection for each, and TCP's slow start, against connections that go on.

"""

TAIL = """\
Large files remain when all others are done. With one stream a file the rate goes down by a stream's rate with each that
ends; the paper shows 9, 6 and 3 Gbit/s, here 225, 150 and 75 Mbit/s (dashed). For this the four large files lie among
the small ones, each behind a quarter of them, since the paper says that they were not first and its steps are of files
that end one after the other. `unchunked` is the same mover with `--chunking off`: one stream a file, on connections that
stay open. With fixed numbers nothing else differs. Each run ends when all is there.

"""

LEARNING = """\
`tidegate train` on this path and on the paper's own (40 Gbit/s, 3 Gbit/s a stream), one seed after the other, two
threads. The criterion is the papers': 0.9 of R_max in the mean of a hundred episodes, then 1,000 episodes without
anything better. `fast` is our own recipe.

"""


def table_two(found: Found) -> str:
    """Mbit/s and connections here, Gbit/s and concurrency in the paper."""
    lines = []
    for row in (*bars.OTHERS, "LDM"):
        lines.append([row, "paper", *(f"{g:g} Gbit/s; {n:g}" for g, n in paper.TABLE_II[row].values())])
        lines.append(["", "here", *(cell(found, dataset, bars.mover(row, dataset)) for dataset in "ABCD")])
    for name in (cases.FALCON.name, cases.DRL.name, cases.LDM_STEADY.name, cases.AUTO.name):
        lines.append([f"`{name}`, our engine", "here", *(cell(found, dataset, name) for dataset in "ABCD")])
    lines.append(["Globus `-fast -pp`", "here", *(cell(found, d, cases.globus(d)[1].name) for d in "ABCD")])
    return table(["", "", "A", "B", "C", "D"], lines)


def cell(found: Found, dataset: str, name: str) -> str:
    runs = runs_of(found, dataset, name)
    if not runs:
        return "–"
    deviation = statistics.stdev(run.bps for run in runs) if len(runs) > 1 else 0.0
    streams = medians(runs, lambda run: run.streams)
    spread = f" ± {mbit(deviation)}" if len(runs) > 1 else ""
    return f"{mbit(statistics.fmean(run.bps for run in runs))}{spread}; {streams:.1f}"


def explored(records: Sequence[Record]) -> str:
    """What C's and D's policies were trained for."""
    said = {(found["link_bps"], found["stream_bps"]) for record in records if record.set in ("C", "D")
            if (found := record.notes.get("trained_for"))}
    return "".join(f"Exploring found {mbit(link)} Mbit/s on C's and D's link, and {mbit(stream)} Mbit/s a connection.\n\n"
                   for link, stream in sorted(said))


def shares_table(found: Found) -> str:
    lines = [[each.dataset, each.other, f"{each.published.value:.1f}", str(each.measured), str(each.rule or ""),
              str(each.engine or ""), "" if each.late is None else f"{each.late:.2f}",
              "" if each.most is None else f"{each.most:.1f}", each.reason or "reached"]
             for each in bars.headlines(found) if each.measured is not None]
    return measured_table(["set", "LDM ÷", "paper", "here (95 %)", "of it the rule", "of it the engine", "second halves",
                  "the link's most", ""], lines)


def files_table(found: Found) -> str:
    """What a file costs a connection where it cannot be used again."""
    lines = []
    for row in ("Falcon", "DRL"):
        for dataset, mean_mb in (("C", 0.55), ("D", 9.1)):
            runs = runs_of(found, dataset, bars.mover(row, dataset))
            if runs:
                here, there = medians(runs, bars.file_s), bars.paper_file_s(row, dataset, mean_mb)
                size = runs[0].record.bytes / runs[0].record.files / 1e6
                lines.append([dataset, row, f"{size:.2f} MB", f"{here:.2f} s, {here / paper.RTT_S:.1f} round trips",
                              f"{mean_mb:g} MB", f"{there:.2f} s, {there / paper.RTT_S:.1f} round trips"])
    heads = ["set", "", "mean file here", "a connection needs", "there", "a connection needed"]
    return measured_table(heads, lines)


def figure_three(found: Found) -> str:
    lines = []
    for row, published in paper.FIGURE_3.items():
        runs = runs_of(found, "A", bars.mover(row, "A"))
        lines.append([row, f"{published:.0f}", seconds(bars.time_to_mean(runs)) if runs else "–",
                      mbit(medians(runs)) if runs else "–"])
    auto = runs_of(found, "A", cases.AUTO.name)
    lines.append([f"`{cases.AUTO.name}`", "", seconds(bars.time_to_mean(auto)) if auto else "–",
                  mbit(medians(auto)) if auto else "–"])
    return table(["", "s to its mean, paper", "here", "its mean, Mbit/s"], lines)


def figure_four(found: Found) -> str:
    lines = []
    for name in (each.name for pair in cases.TAILS for each in reversed(pair)):
        if runs := runs_of(found, cases.TAIL, name):
            tails = [bars.tail(run) for run in runs]
            length = spread([s for s, _ in tails])
            steps = [statistics.median(bars.left(run)[i] for run in runs) for i in range(len(paper.FIGURE_4))]
            lines.append([name, f"{length.median:.0f} ({length.low:.0f}–{length.high:.0f})",
                          mbit(statistics.median(bps for _, bps in tails)), ", ".join(f"{s:g}" for s in steps),
                          f"{medians(runs, lambda r: r.end_s):.0f}", str(len(runs))])
    heads = ["mover", "s below half of its best second, at the end", "Mbit/s then", "s at three, two and one streams' rate",
             "s in all", "n"]
    return measured_table(heads, lines)


def training_table(found: list[Learned]) -> str:
    return f"The paper: {paper.TRAINING}.\n\n" + measured_table(HEADS, rows(found))


def pictures(found: Found) -> dict[str, str]:
    bare = [bars.mover(row, "A") for row in ("Falcon", "DRL")]
    ends = [225, 150, 75]
    made = {"ldm-figure3.svg": over_time(found, cases.case("A"), [*bare, cases.LDM_GD.name, cases.LDM.name],
                                         "set A: how soon each method is there"),
            "ldm-auto.svg": over_time(found, cases.case("A"), [cases.AUTO.name, cases.LDM.name, cases.LDM_STEADY.name],
                                      "set A: the default and LDM"),
            "ldm-figure4.svg": over_time(found, cases.tail_case(), [rule.name for rule in reversed(cases.TAILS[0])],
                                         "the tail of B: the same number of streams, one a file and several", ends)}
    return {name: picture for name, picture in made.items() if picture is not None}


def page() -> Page:
    by_shard = {shard: known(shard) for shard in GRIDS}
    records, found = [record for those in by_shard.values() for record in those], found_of(by_shard)
    driven, sets = found_in(known(EXPLORED), EXPLORED), [cases.told_case(dataset) for dataset in "ABCD"]
    learned = courses_in(known(TRAINING), TRAINING)
    made = pictures(found)
    wanted = [*bars.bars(found), *exploring.bars(driven, sets, cases.EXPLORED_S), *default_bars(found, [cases.case(dataset) for dataset in "ABCD"])]
    parts = ["# LDM: concurrency by a policy, parallelism by chunks\n\n",
             f"```\n{COMMANDS}```\n\nMade by `python3 -m lab report`; do not edit by hand. {measured_on(records)}\n\n",
             INTRODUCTION, BARE, explored(records),
             "## What was to be reached\n\n",
             measured_bars(wanted), WANTED,
             "## Table II\n\n", "Mean, ± the standard deviation where there was more than one run, and the mean number of connections.\n\n", table_two(found),
             SHARES, shares_table(found), FILES, files_table(found),
             "## Figure 3: how soon\n\n", figure_three(found),
             image(made, "ldm-figure3.svg", "goodput and connections of four methods over time on set A"),
             image(made, "ldm-auto.svg", "goodput and connections of the default and LDM over time on set A"),
             "## Figure 4: the tail of B\n\n",
             TAIL, figure_four(found),
             image(made, "ldm-figure4.svg", "the end of set B with one stream a file and with several"),
             exploring.section(driven, sets, cases.EXPLORED_S, EXPLORED),
             "## Training\n\n", LEARNING, training_table(learned), "## What this does not show\n\n", NOT_SHOWN]
    for dataset in "ABCD":
        parts += [f"## Set {dataset}: {cases.SHAPES[dataset]}\n\n",
                  case_table(found, cases.case(dataset), cases.AUTO.name)]
    parts += [failures([*records, *known(EXPLORED), *known(TRAINING)]), "Every run is in [ldm.csv](ldm.csv), every policy in "
              "[ldm-training.csv](ldm-training.csv).\n"]
    return Page(NAME, "".join(parts), {**made, "ldm.csv": raw({**found, **{f"explored/{name}": there for name, there in driven.items()}}), "ldm-training.csv": raw_training(learned)})
