"""The page about control rules on live paths, and the epochs it was made from."""

import statistics
from collections.abc import Iterable, Sequence

from lab.live import figures
from lab import install
from lab.runs.epochs import STAGES, epochs
from lab.live.experiments import CAPS, PATHS_S, STAGING, STREAM_MBIT
from lab.live.bars import (DEFAULT, FAIR, FAIR_OVER_S, FAIR_WITHIN_S, LINK_BPS, STEADY_S, Runs, again, alone, astray,
                             bars, changing, counted, means, median_mean, rules_in, runs, shared, shares, soon, steady,
                             steady_mbps, steps_of, together)
from lab.live.pictures import pictures
from lab.movers.report import table
from lab.ground.results import Record, builds
from lab.links.routed import QUEUE_MS
from lab.ground.stats import shown, spread
from lab.shard import Page

COMMAND = "python3 -m lab report live"


def bars_table(found: Runs, rule: str) -> str:
    return table(["what", "bar", "measured", "reached"],
                 [[bar.what, bar.bar, bar.measured, bar.verdict] for bar in bars(found, rule)])


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
    return table(["becomes", "rule", "epochs to 90 %", "epochs below, in all", "mean Mbit/s until the next",
                  "it carries", "streams in the last 10 s", "n"], rows)


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
        f"{install.describe()}. {builds(records)}, {newest.time[:10]}. Namespaces on veth pairs, MTU 1500, TCP cubic; "
        "goodput is the least of the three stages, as the program measures it in each epoch. What is not measured, "
        "while workers change, is taken for what follows. Medians over the runs, with the range.\n",
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
                  "`tidegate probe`, memory to memory, through a router that sends 1 Gbit/s (tbf, a queue of "
                  f"{QUEUE_MS} ms, no other delay), with streams paced at {STREAM_MBIT} Mbit/s by eBPF. The path "
                  "changes at 25 and at 50 s. Counted are the epochs after the one in which it changes, to the first "
                  "of two in a row with 90 % of what the path then carries; headers take 4 % of the link.\n",
                  steps_table(found)]
        parts += [text for experiment in changing() for text in picture(experiment.name)]
    if any((experiment.name, rule) in found for experiment in shared() for rule in rules_in(found)):
        parts += ["## Shared paths\n",
                  f"The same link of 1 Gbit/s and streams of {STREAM_MBIT} Mbit/s. A transfer joins every 25 s; 40 s "
                  "after the last, the first leaves, then another every 15 s. The index is Jain's, of means over "
                  f"{FAIR_OVER_S} s; what was freed is retaken when those that remain have 90 % of the link. Where "
                  "each has 32 streams, the bound on workers keeps them from asking for more.\n",
                  shares_table(found)]
        parts += [text for experiment in shared() for text in picture(experiment.name)]
    failed = [record for record in {r.key: r for r in records}.values() if not record.ok]
    if failed:
        parts.append("Runs that failed and are not counted:\n")
        parts.append("".join(f"- {record.set}, {record.contender}, repeat {record.repeat + 1}: {record.error}\n"
                             for record in failed))
    parts.append("Every epoch of every run is in [live.csv](live.csv).\n")
    return "\n".join(parts)


def made(records: Sequence[Record]) -> Page:
    """The page, and beside it what it shows."""
    drawn = pictures(runs(records))
    beside = {f"live-{name}.svg": picture for name, picture in drawn.items()}
    beside["live.csv"] = raw({record.key: record for record in records if record.ok}.values())
    return Page("live", page(records, drawn), beside)
