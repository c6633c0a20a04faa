"""The page about control rules on live paths, its pictures, and the epochs it was made from."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import live_figures as figures
from bench import machine, plot
from bench.controllers_report import shown
from bench.epochs import STAGES, Epoch, epochs
from bench.live import CAPS, LINK_MBIT, PATHS_S, STAGING, STREAM_MBIT, Experiment, experiments
from bench.live_rules import NAMES, RECIPES
from bench.report import table
from bench.results import Record
from bench.stats import spread

COMMAND = "python3 -m bench live"
PATH_BPS = LINK_MBIT * 1e6
# Links shaped by tc carry frames; what is left for content:
LINK_BPS = PATH_BPS * figures.CONTENT
# Steady from here on: Marlin needs half a minute on these paths.
STEADY_S = 30
DEFAULT = "auto"
PUBLISHED = ("marlin", "falcon", "gradient")
# A share is judged by running means of so many seconds, from the last join to the first that leaves.
FAIR_OVER_S = 5
FAIR_WITHIN_S, FAIR = 30, 0.95
RETAKEN_WITHIN_S = 10
WITHIN_EPOCHS = 5


@dataclass(frozen=True)
class Bar:
    """What is asked, what was measured, and whether it is enough in each run."""

    what: str
    bar: str
    measured: str
    reached: Sequence[bool]

    @property
    def verdict(self) -> str:
        if all(self.reached):
            return "yes"
        return f"in {sum(self.reached)} of {len(self.reached)} runs" if any(self.reached) else "no"


# Runs by experiment and rule: each is the epochs of every transfer in it.
Runs = dict[tuple[str, str], list[list[list[Epoch]]]]


def runs(records: Iterable[Record]) -> Runs:
    """The good runs; one that was measured again replaces the earlier."""
    found: Runs = {}
    for record in sorted({r.key: r for r in records if r.ok}.values(), key=lambda r: r.repeat):
        logs = [epochs(log) for log in record.notes["logs"]]
        found.setdefault((record.set, record.contender), []).append(logs)
    return found


def rules_in(found: Runs) -> list[str]:
    present = {rule for _, rule in found}
    return [name for name in (*NAMES[:-1], *RECIPES) if name in present]


def alone(found: Runs, name: str, rule: str) -> list[list[Epoch]]:
    """Runs of one transfer."""
    return [logs[0] for logs in found.get((name, rule), [])]


def counted(values: Sequence[float | None], digits: int = 0) -> str:
    """Median and range, and how many never got there."""
    got = [value for value in values if value is not None]
    if not got:
        return "never"
    missing = len(values) - len(got)
    return shown(spread(got), digits) + (f", {missing} never" if missing else "")


def within(values: Sequence[float | None], most: float) -> list[bool]:
    return [value is not None and value <= most for value in values]


# AutoMDT's paths.

def soon(runs_: Sequence[Sequence[Epoch]]) -> list[float | None]:
    return [figures.seconds_to(run, 0.9 * PATH_BPS) for run in runs_]


def steady(runs_: Sequence[Sequence[Epoch]]) -> list[list[Epoch]]:
    return [figures.since(run, STEADY_S) for run in runs_]


def unsteady(runs_: Sequence[Sequence[Epoch]]) -> list[float]:
    return [max(figures.deviations(run)) for run in steady(runs_)]


def astray(runs_: Sequence[Sequence[Epoch]], name: str) -> list[float]:
    return [figures.furthest(figures.usual(run), CAPS[name].best) for run in steady(runs_)]


def means(runs_: Sequence[Sequence[Epoch]]) -> list[float]:
    return [figures.mean_bps(run) for run in runs_]


def median_mean(found: Runs, name: str, rule: str) -> float | None:
    there = alone(found, name, rule)
    return statistics.median(means(there)) if there else None


def paths_table(found: Runs, name: str) -> str:
    rows = []
    own = median_mean(found, name, DEFAULT)
    for rule in rules_in(found):
        there = alone(found, name, rule)
        if not there:
            continue
        usual = [figures.usual(run) for run in steady(there)]
        deviations = [figures.deviations(run) for run in steady(there)]
        mean = spread([bps / 1e6 for bps in means(there)])
        late = spread([steady_mbps(run) for run in there])
        rows.append([f"`{rule}`", counted(soon(there), 1), shown(mean, 0), shown(late, 0),
                     f"{own / 1e6 / mean.median:.3f}" if own else "",
                     ", ".join(f"{statistics.median(n[i] for n in usual):g}" for i in range(len(STAGES))),
                     f"{statistics.median(astray(there, name)) * 100:.0f} %",
                     ", ".join(f"{statistics.median(d[i] for d in deviations):.1f}" for i in range(len(STAGES))),
                     str(len(there))])
    return table(["rule", "s to 900 Mbit/s", "mean Mbit/s", f"from {STEADY_S} s on", f"`{DEFAULT}` ÷ this",
                  "workers: read, network, write", "furthest from best", "their standard deviation", "n"], rows)


def steady_mbps(run: Sequence[Epoch]) -> float:
    return figures.mean_between(run, 0.0, STEADY_S, run[-1].end_s) / 1e6


def path_bars(found: Runs, rule: str) -> list[Bar]:
    bars = []
    for name in CAPS:
        there = alone(found, name, rule)
        if not there:
            continue
        times, strays, deviations = soon(there), astray(there, name), unsteady(there)
        bars += [Bar(f"{name} is slow: s to 90 % of 1 Gbit/s", "≤ 5", counted(times, 1), within(times, 5.05)),
                 Bar(f"{name} is slow: standard deviation of workers, the most of a stage", "≤ 1",
                     shown(spread(deviations)), within(deviations, 1)),
                 Bar(f"{name} is slow: workers from the best, the most of a stage", "≤ 25 %",
                     shown(spread([100 * s for s in strays]), 0) + " %", within(strays, 0.25))]
        own = means(there)
        for other in (*PUBLISHED, *RECIPES):
            rate = median_mean(found, name, other)
            if rate is not None:
                least = 0.98 if other in RECIPES else 1.0
                bars.append(Bar(f"{name} is slow: mean ÷ that of `{other}`", f"≥ {least:g}",
                                shown(spread([bps / rate for bps in own])), [bps >= least * rate for bps in own]))
    return bars


# Paths that change.

@dataclass(frozen=True)
class Step:
    what: str
    at_s: float
    until_s: float
    carries_bps: float


def steps_of(experiment: Experiment) -> list[Step]:
    """Where the path changes, what it becomes, and what it carries until the next change."""
    changes = [(at_s, f"link {mbit}", mbit * 1e6 * figures.CONTENT) for at_s, mbit in experiment.link_steps]
    changes += [(at_s, f"stream {mbit}", LINK_BPS) for at_s, mbit in experiment.stream_steps]
    ends = [at_s for at_s, *_ in changes[1:]] + [experiment.seconds]
    return [Step(f"{what} Mbit/s", at_s, end, bps) for (at_s, what, bps), end in zip(changes, ends)]


def again(found: Runs, experiment: Experiment, rule: str, step: Step) -> list[float | None]:
    """Epochs from the step until the path is used again, in each run."""
    return [figures.epochs_until(run, step.at_s, 0.9 * step.carries_bps, step.until_s)
            for run in alone(found, experiment.name, rule)]


def changing() -> list[Experiment]:
    return [experiment for experiment in experiments() if experiment.link_steps or experiment.stream_steps]


def steps_table(found: Runs) -> str:
    rows = []
    for experiment in changing():
        for rule in rules_in(found):
            there = alone(found, experiment.name, rule)
            if not there:
                continue
            for step in steps_of(experiment):
                mean = spread([figures.mean_between(run, 0.0, step.at_s, step.until_s - 1) / 1e6 for run in there])
                usual = spread([figures.usual(figures.since(run, step.until_s - 10, step.until_s))[1] for run in there])
                below = spread([figures.short(run, step.at_s, 0.9 * step.carries_bps, step.until_s) for run in there])
                rows.append([step.what, f"`{rule}`", counted(again(found, experiment, rule, step)), shown(below, 0),
                             shown(mean, 0),
                             f"{step.carries_bps / 1e6:.0f}", shown(usual, 0), str(len(there))])
    return table(["becomes", "rule", "epochs to 90 %", "epochs below, in all", "mean Mbit/s until the next", "it carries",
                  "streams in the last 10 s", "n"], rows)


def step_bars(found: Runs, rule: str) -> list[Bar]:
    bars = []
    for experiment in changing():
        for step in steps_of(experiment):
            if counts := again(found, experiment, rule, step):
                bars.append(Bar(f"{step.what}: epochs to 90 %", f"≤ {WITHIN_EPOCHS}", counted(counts),
                                within(counts, WITHIN_EPOCHS)))
    return bars


# Shared paths.

@dataclass(frozen=True)
class Share:
    """What came of one run with several transfers."""

    fair_after_s: float | None  # after the last join
    index: float  # in the last seconds before the first leaves
    rates: Sequence[float]  # then, in bit/s
    total_bps: float  # then
    retaken_s: Sequence[float | None]  # after each that left

    @property
    def is_fair(self) -> bool:
        return self.fair_after_s is not None and self.fair_after_s <= FAIR_WITHIN_S and self.index >= FAIR


def share(experiment: Experiment, logs: Sequence[Sequence[Epoch]]) -> Share:
    joins = [joins for joins, _ in experiment.visits]
    leaves = [leaves for _, leaves in experiment.visits]

    def rates(begin: float, end: float) -> list[float]:
        return [figures.mean_between(run, joined, begin, end) for run, joined in zip(logs, joins)]

    def remaining(second: float) -> float:
        return sum(figures.at(run, joined, second) for run, joined in zip(logs, joins))

    last, first = joins[-1], leaves[0]
    fair = figures.first_second(last + FAIR_OVER_S, first, lambda s: figures.jain(rates(s - FAIR_OVER_S, s)) >= FAIR)
    late = rates(last + FAIR_WITHIN_S, first)
    # From the first full second after it left; the log of one that leaves ends with its last whole epoch.
    retaken = [figures.first_second(left, end - 1, lambda s: remaining(s + 0.5) >= 0.9 * LINK_BPS)
               for left, end in zip(leaves, leaves[1:])]
    return Share(None if fair is None else fair + FAIR_OVER_S, figures.jain(late), late, sum(late), retaken)


def shares(found: Runs, experiment: Experiment, rule: str) -> list[Share]:
    return [share(experiment, logs) for logs in found.get((experiment.name, rule), [])]


def shared() -> list[Experiment]:
    return [experiment for experiment in experiments() if experiment.visits]


def shares_table(found: Runs) -> str:
    rows = []
    for experiment in shared():
        for rule in rules_in(found):
            if there := shares(found, experiment, rule):
                streams = "; ".join(
                    ", ".join(f"{n:g}" for n in together(experiment, logs)) for logs in found[experiment.name, rule])
                left = [value for each in there for value in each.retaken_s]
                rows.append([str(len(experiment.visits)), f"`{rule}`", counted([s.fair_after_s for s in there]),
                             shown(spread([s.index for s in there]), 3),
                             "; ".join(", ".join(f"{bps / 1e6:.0f}" for bps in s.rates) for s in there),
                             streams, shown(spread([s.total_bps / LINK_BPS for s in there])), counted(left),
                             str(len(there))])
    return table(["transfers", "rule", f"s to an index of {FAIR:g}", f"index after {FAIR_WITHIN_S} s",
                  "Mbit/s of each", "streams of each", "all ÷ link", "s to retake what was freed", "n"], rows)


def together(experiment: Experiment, logs: Sequence[Sequence[Epoch]]) -> list[float]:
    """Median streams of each in the seconds before the first leaves."""
    first, last = experiment.visits[0][1], experiment.visits[-1][0]
    return [figures.usual(figures.since(run, last + FAIR_WITHIN_S - joined, first - joined))[1]
            for run, (joined, _) in zip(logs, experiment.visits)]


def share_bars(found: Runs, rule: str) -> list[Bar]:
    bars = []
    for experiment in shared():
        there = shares(found, experiment, rule)
        if not there:
            continue
        left = [value for each in there for value in each.retaken_s]
        count = len(experiment.visits)
        bars += [Bar(f"{count} transfers: Jain index {FAIR_WITHIN_S} s after the last join", f"≥ {FAIR:g}",
                     shown(spread([each.index for each in there]), 3), [each.is_fair for each in there]),
                 Bar(f"{count} transfers: s to retake what was freed", f"≤ {RETAKEN_WITHIN_S}", counted(left),
                     [all(within(each.retaken_s, RETAKEN_WITHIN_S)) for each in there])]
    return bars


def bars_table(found: Runs, rule: str) -> str:
    bars = [*path_bars(found, rule), *step_bars(found, rule), *share_bars(found, rule)]
    return table(["what", "bar", "measured", "reached"], [[b.what, b.bar, b.measured, b.verdict] for b in bars])


# Pictures.

COLOURS = (plot.BLUE, plot.ORANGE, plot.SKY, plot.BLACK)


def middle(values: Sequence[float]) -> int:
    return list(values).index(statistics.median_low(values))


def drawn(run: Sequence[Epoch], value: Callable[[Epoch], float], joined_s: float = 0.0) -> list[tuple[float, float]]:
    return [(joined_s + e.end_s, value(e)) for e in run]


def compared(found: Runs, name: str, title: str, rules: Sequence[str], marks: Sequence[float],
             rest: Sequence[plot.Panel] = ()) -> str | None:
    """Goodput over time under some rules, the median run bold."""
    lines = []
    for rule, colour in zip(rules, COLOURS):
        if there := alone(found, name, rule):
            bold = middle(means(there))
            paths = [drawn(run, lambda e: e.goodput_bps / 1e6) for run in there]
            lines.append(plot.Line(rule, colour, paths[bold], [p for i, p in enumerate(paths) if i != bold]))
    if not lines:
        return None
    return plot.draw(title, [plot.Panel("goodput, Mbit/s", lines, marks), *rest],
                     "bold: the run of median goodput; faint: its repeats")


def path_picture(found: Runs, name: str) -> str | None:
    there = alone(found, name, DEFAULT)
    if not there:
        return None
    run = there[middle(means(there))]
    caps = CAPS[name]
    workers = plot.Panel(
        f"workers of {DEFAULT}: read (thick, best {caps.best[0]}), network (middle, {caps.best[1]}), "
        f"write (thin, {caps.best[2]})",
        [plot.Line(stage, colour, drawn(run, lambda e, i=i: e.workers[i]), stroke=stroke)  # type: ignore[misc]
         for i, (stage, colour, stroke) in enumerate(zip(STAGES, (plot.SKY, plot.ORANGE, plot.BLACK), (6, 3.5, 1.5)))],
        list(caps.best))
    title = f"{name} is slow: {caps.read}, {caps.network}, {caps.write} Mbit/s a worker, 1 Gbit/s in all"
    return compared(found, name, title, (DEFAULT, "marlin", "falcon", "gradient"), [LINK_MBIT], [workers])


def step_picture(found: Runs, experiment: Experiment) -> str | None:
    streams = []
    rules = (DEFAULT, "gradient")
    for rule, colour in zip(rules, COLOURS):
        if there := alone(found, experiment.name, rule):
            streams.append(plot.Line(rule, colour, drawn(there[middle(means(there))], lambda e: e.streams)))
    marks = sorted({step.carries_bps / 1e6 for step in steps_of(experiment)})
    return compared(found, experiment.name, experiment.title, rules, marks, [plot.Panel("streams", streams)])


def share_picture(found: Runs, experiment: Experiment) -> str | None:
    there = found.get((experiment.name, DEFAULT))
    if not there:
        return None
    logs = there[middle([share(experiment, logs).index for logs in there])]

    def lines(value: Callable[[Epoch], float]) -> list[plot.Line]:
        return [plot.Line(f"transfer {i + 1}", colour, [(joined, 0.0), *drawn(run, value, joined)])
                for i, (run, (joined, _), colour) in enumerate(zip(logs, experiment.visits, COLOURS))]

    return plot.draw(f"{experiment.title} of 1 Gbit/s, {STREAM_MBIT} Mbit/s a stream, under {DEFAULT}", [
        plot.Panel("goodput, Mbit/s (dashed: equal shares of the link)", lines(lambda e: e.goodput_bps / 1e6),
                   [LINK_BPS / 1e6 / len(logs)]),
        plot.Panel("streams", lines(lambda e: e.streams))], "the run of median fairness")


def pictures(found: Runs) -> dict[str, str]:
    made = {name: path_picture(found, name) for name in CAPS}
    made |= {experiment.name: step_picture(found, experiment) for experiment in changing()}
    made |= {experiment.name: share_picture(found, experiment) for experiment in shared()}
    return {name: picture for name, picture in made.items() if picture is not None}


def raw(records: Iterable[Record]) -> str:
    """Every epoch of every good run, so that the tables can be made again."""
    lines = ["path,rule,run,transfer,epoch,end_s,measured_s,read_workers,network_workers,write_workers,"
             "read_bps,network_bps,write_bps,loss,rtt_us\n"]
    for record in records:
        for i, log in enumerate(record.notes["logs"], 1):
            for number, (line, e) in enumerate(zip(log, epochs(log)), 1):
                numbers = [*e.workers, *(round(rate) for rate in e.rates_bps)]
                loss, rtt = line.get("loss"), line.get("rtt_us")
                lines.append(f"{record.set},{record.contender},{record.repeat + 1},{i},{number},"
                             f"{e.end_s:.3f},{e.measured_s:.3f},{','.join(map(str, numbers))},"
                             f"{'' if loss is None else f'{loss:.5f}'},{'' if rtt is None else rtt}\n")
    return "".join(lines)


def page(records: Sequence[Record], drawn_: Iterable[str]) -> str:
    found = runs(records)
    if not found:
        return "# Control rules on live paths\n\nNothing has been measured yet.\n"
    shown_ = set(drawn_)
    newest = max(records, key=lambda record: record.time)

    def picture(name: str) -> list[str]:
        return [f"![{name}](live-{name}.svg)\n"] if name in shown_ else []

    parts = [
        "# Control rules on live paths\n", f"Made by `{COMMAND}`; do not edit by hand.\n",
        f"{machine.describe()}. {newest.version}, {newest.time[:10]}. Two network namespaces on one veth pair; goodput "
        "is the least of the three stages, as the program measures it in each epoch. What is not measured, while "
        "workers change, is taken for what follows. Medians over the runs, with the range. The processors are two, "
        "and shared with whatever else the machine does.\n",
        f"## What `{DEFAULT}` was to reach\n",
        "Reached means in every run.\n", bars_table(found, DEFAULT)]
    parts += ["## AutoMDT's three paths\n",
              "Files in memory, copied by `tidegate copy` with its own limits: a rate for each reader, stream and "
              f"writer, and 1 Gbit/s for all streams; staging of {STAGING} at each end, at most 32 workers a stage, "
              f"{PATHS_S:g} s. AutoMDT, figure 5: it takes 3 to 7 s to 90 %, Marlin 29 to 62 s. Epochs of 1 s, of 3 s "
              f"for the published rules; workers are those from {STEADY_S} s on.\n"]
    for name, caps in CAPS.items():
        if any((name, rule) in found for rule in rules_in(found)):
            parts += [f"### {name} is slow\n",
                      f"{caps.read}, {caps.network} and {caps.write} Mbit/s a worker; best are "
                      f"{', '.join(map(str, caps.best))}.\n", paths_table(found, name), *picture(name)]
    if any((experiment.name, rule) in found for experiment in changing() for rule in rules_in(found)):
        parts += ["## Paths that change\n",
                  f"`tidegate probe`, memory to memory, on a link shaped by tc (tbf) and streams paced at {STREAM_MBIT} "
                  "Mbit/s by eBPF. The path changes at 25 and at 50 s. Counted are the epochs after the one in which "
                  "it changes, to the first of two in a row with 90 % of what the path then carries; headers take 4 % "
                  "of the link.\n", steps_table(found)]
        parts += [text for experiment in changing() for text in picture(experiment.name)]
    if any((experiment.name, rule) in found for experiment in shared() for rule in rules_in(found)):
        parts += ["## Shared paths\n",
                  f"The same link of 1 Gbit/s and streams of {STREAM_MBIT} Mbit/s. A transfer joins every 25 s; 40 s "
                  "after the last, the first leaves, then another every 15 s. The index is Jain's, of means over "
                  f"{FAIR_OVER_S} s; what was freed is retaken when those that remain have 90 % of the link.\n",
                  shares_table(found)]
        parts += [text for experiment in shared() for text in picture(experiment.name)]
    failed = [record for record in {r.key: r for r in records}.values() if not record.ok]
    if failed:
        parts.append("Runs that failed and are not counted:\n")
        parts.append("".join(f"- {record.set}, {record.contender}, repeat {record.repeat + 1}: {record.error}\n"
                             for record in failed))
    parts.append("Every epoch of every run is in [live.csv](live.csv).\n")
    return "\n".join(parts)


def write(records: Sequence[Record], output: Path) -> None:
    """The page, and beside it what it shows."""
    output.parent.mkdir(parents=True, exist_ok=True)
    made = pictures(runs(records))
    for name, picture in made.items():
        output.with_name(f"{output.stem}-{name}.svg").write_text(picture)
    output.write_text(page(records, made))
    output.with_suffix(".csv").write_text(raw({record.key: record for record in records if record.ok}.values()))
    print(f"wrote {output}")
