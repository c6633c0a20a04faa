"""The page about AutoMDT: figures 3, 4 and 5, table I, training and learning online, each beside ours."""

import statistics
from collections.abc import Mapping

from lab.automdt import bars, cases
from lab.automdt.paper import FIGURE_3, FIGURE_5, LEAST_S, ONLINE, SCALE, TABLE_I, TRAINING
from lab.automdt.pictures import learning, pictures
from lab.grid import exploring
from lab.grid.figures import Found, Run, found_in, medians, runs_of
from lab.grid.remarks import default_bars, failures, measured_on
from lab.grid.show import case_table, raw
from lab.ground.stats import counted
from lab.pages.parts import ABSENT, csv, image, mbit, measured_bars, measured_table, table
from lab.runs import epochs
from lab.runs.epochs import HEADS as EPOCH_HEADS
from lab.shard import Page, known
from lab.training import HEADS, Learned, courses_in, rows
from lab.training import raw as raw_training

NAME = "automdt"
THREE, FIVE, ONE, TRAIN, TUNE = ("automdt-figure3", "automdt-figure5", "automdt-table1", "automdt-training",
                                 "automdt-online")
EXPLORED, EXPLORED_S = "automdt-explored", 60
GRIDS = (THREE, FIVE, ONE, TUNE)
COMMANDS = "".join(f"python3 -m lab run {shard}\n" for shard in (*GRIDS, EXPLORED, TRAIN))

INTRODUCTION = """\
AutoMDT sets readers, streams and writers each for itself by a policy that was trained in a simulator of the path.
Here are its experiments on namespaces joined by a relay: connections are held back for every program by a pacing rate
(eBPF), readers and writers by the program itself, the link by a token bucket, with 10 ms of round trip (20 ms for
figure 3 and table I). Staging is 16 MiB at each end, at most 32 workers a stage. Data lies on tmpfs and arrives in
files that do not exist before; every run is judged by content. `automdt` draws its action as published, `automdt,
most likely action` is the same policy without drawing, and the agent of this path is our own recipe `fast`; all were
trained on the path they drive. How soon a rule has the best number is told beside the numbers it begins with, since only
from there on does it converge: the agent of this path begins where it came to rest in training, at its trained optimum,
and has no time of convergence at all. From another start it was not measured here; `automdt`, `auto` and the published
rules begin with one or two a stage, and their seconds are seconds of convergence. Epochs of 1 s, of 3 s for the published
rules. Marlin's own staging is a file system
in memory as large as memory allows; with 16 MiB its three gradients take one another's stalls for slopes and stay near
the start, so it stands here with 1 GiB at each end too, and the paper's ratios are held against that.

"""


NOT_SHOWN = """\
- The paper's rates of table I and figure 3, its disks and its file systems: readers and writers are held back by numbers.
- A policy on a path that is not the one it was trained for; [beyond.md](beyond.md) and [learning.md](learning.md) have that.
- Training for as long as the paper's authors waited, other than by the criterion that they name.

"""


def path_table(found: Found, path: str) -> str:
    """One part of figure 5: every rule, how soon, how fast, with how many workers."""
    lines = []
    there = found.get(path, {})
    for name in sorted(there, key=lambda name: -medians(there[name])):
        runs = there[name]
        late = [log for run in runs if (log := bars.steady(run))]
        usual = [epochs.usual(log) for log in late]
        moves = [epochs.deviations(log) for log in late]
        lines.append([f"**{name}**" if name == bars.DEFAULT else name, counted(bars.soon(runs, path)),
                      mbit(medians(runs)), mbit(medians(runs, lambda r: r.between(bars.STEADY_S, r.end_s))),
                      ", ".join(f"{statistics.median(n[i] for n in usual):g}" for i in range(3)) if usual else "",
                      counted([100 * s for s in bars.astray(runs, path)]) + " %" if usual else "",
                      ", ".join(f"{statistics.median(d[i] for d in moves):.1f}" for i in range(3)) if moves else "",
                      begun_with(runs), arrival(runs, FIGURE_5[path].slow, FIGURE_5[path].best[FIGURE_5[path].slow]),
                      str(len(runs))])
    heads = ["rule", "s to 90 % of the link", "Mbit/s", f"from {bars.STEADY_S:.0f} s on",
             "workers: read, network, write",
             "furthest from best", "their standard deviation", "begins with",
             "s from there to the best number of the slow stage", "n"]
    return measured_table(heads, lines)


def climbs(runs: list[Run], stage: int, wanted: float) -> list[float | None]:
    """When nine tenths of that many workers were first there."""
    return [epochs.begins(run.logs[0], stage, 0.9 * wanted) for run in runs if run.logs and run.logs[0]]


def begun_with(runs: list[Run]) -> str:
    """The workers of each stage in the first epoch."""
    first = [run.logs[0][0].workers for run in runs if run.logs and run.logs[0]]
    return ", ".join(f"{statistics.median(n[i] for n in first):g}" for i in range(3)) if first else ""


def arrival(runs: list[Run], stage: int, wanted: float, digits: int = 0) -> str:
    """How soon that many workers were there: who began with them has converged nowhere."""
    times = climbs(runs, stage, wanted)
    return "none: it begins there" if times and not any(at_s != 0 for at_s in times) else counted(times, digits)


def figure_five(found: Found, made: Mapping[str, str]) -> str:
    parts = []
    for path, published in FIGURE_5.items():
        parts += [f"### {path} is slow\n\n",
                  f"{', '.join(map(str, published.rates))} Mbit/s a worker; best are "
                  f"{', '.join(map(str, published.best))}. The paper: AutoMDT {published.automdt}, Marlin "
                  f"{published.marlin}; done {published.sooner_s} s sooner.\n\n", path_table(found, path),
                  image(made, f"automdt-{path}.svg", f"goodput and workers where {path} is slow")]
    return "".join(parts)


def figure_three(found: Found) -> str:
    """How soon twenty workers, and how soon all is done."""
    lines = [[name, "paper", f"{total:g} s", f"{total / LEAST_S:.2f}", "", f"{count} after {at_s:g} s", ""]
             for name, (total, count, at_s) in FIGURE_3.items()]
    for mover in (rule.name for rule in (cases.AUTOMDT, cases.STEADY, cases.AGENT, cases.ROOMY, cases.AUTO)):
        if runs := runs_of(found, "large", mover):
            most = [max((e.workers[1] for e in run.logs[0]), default=0) for run in runs if run.logs]
            soon = arrival(runs, 1, 20, 1)
            total = medians(runs, lambda r: r.record.seconds)
            lines.append([mover, "here", f"{total:.1f} s", f"{total / bars.least_s():.2f}",
                          begun_with(runs), (f"18 of 20 after {soon} s" if soon[0].isdigit() else soon)
                          + f"; at most {statistics.median(most):g}" if most else "",
                          str(len(runs))])
    return table(["", "", "all moved after", "times as long as at full rate", "begins with", "streams", "n"], lines)


def table_one(found: Found) -> str:
    lines = []
    for row, mover in bars.STANDS_FOR.items():
        for where, cell in (("paper", lambda name: f"{TABLE_I[name][row]:,.0f}"),  # noqa: B023
                            ("here", lambda name: rate(found, name, mover))):  # noqa: B023
            lines.append([row if where == "paper" else f"`{mover}`", where, cell("large"), cell("mixed")])
    for mover in (cases.GLOBUS_QUICK.name, cases.STEADY.name, bars.DEFAULT):
        lines.append([f"`{mover}`", "here", rate(found, "large", mover), rate(found, "mixed", mover)])
    return table(["Mbit/s", "", "large", "mixed"], lines)


def rate(found: Found, name: str, mover: str) -> str:
    runs = runs_of(found, name, mover)
    return mbit(medians(runs)) if runs else "–"


def online_table(found: Found) -> str:
    lines = []
    for mover, runs in found.get("online", {}).items():
        late = [bars.second_half(run) for run in runs]
        lines.append([mover, mbit(medians(runs)), f"{statistics.median(m for m, _ in late):,.0f}",
                      f"{statistics.median(n for _, n in late):.1f}", str(len(runs))])
    heads = ["rule", "Mbit/s", "second half", "workers of all stages, second half", "n"]
    return measured_table(heads, lines)


def figure_four(found: list[Learned]) -> str:
    """Whether choosing among numbers of workers is learned at all, whichever way it falls."""
    discrete = [each for each in found if each.recipe == "automdt_discrete"]
    if not discrete:
        return ABSENT
    lines = [f"- {each.path}: {each.met} of {len(each.runs)} seeds came to the criterion; best ÷ R_max "
             f"{each.mean_sd('utility_share', 3)}, after {each.mean_sd('episodes')} episodes\n" for each in discrete]
    return ("The paper's discrete action space did not converge. Here the network chooses among all numbers of workers "
            "of each stage:\n\n" + "".join(lines) + "\n")


def epochs_csv(found: Found) -> str:
    """Every epoch of figures 3 and 5, so that the pictures can be made again."""
    return csv(("path", "rule", "repeat", *EPOCH_HEADS),
               [(case, mover, run.record.repeat + 1, *e.figures) for case, there in found.items() if case != "online"
                for mover, runs in there.items() for run in runs for log in run.logs for e in log])


def page() -> Page:
    by_shard = {shard: known(shard) for shard in (*GRIDS, EXPLORED, TRAIN)}
    three, five, one, tune = (found_in(by_shard[shard], shard) for shard in GRIDS)
    learned = courses_in(by_shard[TRAIN], TRAIN)
    driven, paths = found_in(by_shard[EXPLORED], EXPLORED), [cases.path_case(name) for name in FIGURE_5]
    made = {**pictures(three, five, tune), **learning(learned)}
    wanted = [*(bar for path in FIGURE_5 for bar in bars.path_bars(five, path)), *bars.figure3_bars(three),
              *bars.table_bars(one), *bars.online_bars(tune),
              *exploring.bars(driven, paths, EXPLORED_S),
              *default_bars(one, [cases.set_case(name) for name in ("large", "mixed")])]
    every = [record for shard in (*GRIDS, EXPLORED, TRAIN) for record in by_shard[shard]]
    parts = ["# AutoMDT: readers, streams and writers by a policy\n\n",
             f"```\n{COMMANDS}```\n\nMade by `python3 -m lab report`; do not edit by hand. {measured_on(every)}\n\n",
             INTRODUCTION, "## What was to be reached\n\n", measured_bars(wanted),
             "## Figure 5: three slow stages\n\n", figure_five(five, made),
             "## Figure 3: how soon twenty workers\n\n",
             f"100 files at a {SCALE}th of the paper's rate and size. Full rate is the link's, and there table I's, since "
             "the paper does not say what figure 3's link carries.\n\n", figure_three(three),
             image(made, "automdt-figure3.svg", "goodput and connections of AutoMDT and Marlin over time"),
             "## Table I\n\n",
             f"At a {SCALE}th: 4 GB over 1 Gbit/s, 50 Mbit/s a connection. Readers of 100 and writers of 100 Mbit/s "
             "hold back our engine only.\n\n", table_one(one),
             *(f"{cases.set_case(name).title}\n\n{case_table(one, cases.set_case(name), bars.DEFAULT)}"
               for name in ("large", "mixed")),
             "## Training\n\n",
             f"The paper: {TRAINING}. Here on its three paths (`scenarios/automdt-*.toml`), one seed after the other, "
             "two threads, to the same criterion.\n\n", measured_table(HEADS, rows(learned)),
             "## Figure 4: a discrete action space\n\n", figure_four(learned),
             image(made, "automdt-figure4.svg", "utility over episodes with continuous and with discrete actions"),
             exploring.section(driven, paths, EXPLORED_S, EXPLORED),
             "## Learning online\n\n",
             f"The paper: {ONLINE}. Here {cases.ONLINE_EPISODES} episodes of {cases.EPISODE} epochs of "
             f"{cases.ONLINE_EPOCH_S:g} s, where reading is slow; the path is figure 5's at a tenth of its rates, so that "
             "what arrives in ten minutes fits into memory.\n\n", online_table(tune),
             image(made, "automdt-online.svg", "goodput and workers of a policy that learns online and one that does not"),
             "## What this does not show\n\n", NOT_SHOWN,
             failures(every), "Every run is in [automdt.csv](automdt.csv), every epoch of figures 3 and 5 in "
             "[automdt-epochs.csv](automdt-epochs.csv), every policy in "
             "[automdt-training.csv](automdt-training.csv).\n"]
    runs = {f"{shard}/{case}": there for shard, found in zip((*GRIDS, EXPLORED), (three, five, one, tune, driven))
            for case, there in found.items()}
    return Page(NAME, "".join(parts), {**made, "automdt.csv": raw(runs),
                                       "automdt-epochs.csv": epochs_csv({**five, **three}),
                                       "automdt-training.csv": raw_training(learned)})
