"""The page about the control rules, its two pictures, and the epochs it was made from."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import install
from lab.pages import plot
from lab.controllers.rules import CAPPED, DEMO, EPOCHS, MAX_WORKERS, RULES
from lab.runs.epochs import Epoch, between, epochs, goodput, reached, second_half, streams
from lab.movers.report import table, verdict
from lab.ground.results import Record
from lab.ground.stats import Spread, spread

DEMO_LINK_BPS = 1e9
DEMO_BEST = {"read": 13, "network": 7, "write": 5}
NEEDED = 10
# Connections are made and windows grow in the first second or two.
FIXED_FROM = 3
FIXED = "fixed:"
COMMAND = "python3 -m lab controllers"
PROBE = f"tidegate probe DST --time T --json --data-plane clear --optimizer X --max-workers {MAX_WORKERS}"
DEMO_COMMAND = "tidegate demo --json --epochs F --directory /dev/shm"


@dataclass(frozen=True)
class Rival:
    """One rule or fixed number and its runs."""

    name: str
    runs: Sequence[Sequence[Epoch]]
    cpu: Spread

    def over(self, figure: Callable[[Sequence[Epoch]], float], first: int, last: int | None = None) -> Spread:
        return spread([figure(between(run, first, last)) for run in self.runs])

    def gbps(self, first: int, last: int | None = None) -> Spread:
        return self.over(lambda run: goodput(run) / 1e9, first, last)


@dataclass(frozen=True)
class Goal:
    what: str
    reached: Spread
    wanted: float


def rivals(records: Iterable[Record]) -> dict[str, Rival]:
    """The good runs by name; a run measured again replaces the earlier one."""
    groups: dict[str, list[Record]] = {}
    for record in sorted({r.key: r for r in records if r.ok}.values(), key=lambda r: r.repeat):
        groups.setdefault(record.contender, []).append(record)
    return {name: Rival(name, [epochs(run.notes["epochs"]) for run in runs],
                        spread([run.cpu_s_per_gb for run in runs]))
            for name, runs in groups.items()}


def best_fixed(found: dict[str, Rival]) -> Rival | None:
    fixed = [rival for name, rival in found.items() if name.startswith(FIXED)]
    return max(fixed, key=lambda rival: rival.gbps(FIXED_FROM).median, default=None)


def shown(value: Spread, digits: int = 2) -> str:
    """The median, and the range where there is one."""
    if value.count == 1 or f"{value.low:.{digits}f}" == f"{value.high:.{digits}f}":
        return f"{value.median:.{digits}f}"
    return f"{value.median:.{digits}f} ({value.low:.{digits}f}–{value.high:.{digits}f})"


def divided(value: Spread, by: float) -> Spread:
    return Spread(value.median / by, value.low / by, value.high / by, value.count)


def goals(found: dict[str, Rival]) -> list[Goal]:
    made = []
    if best := best_fixed(found):
        most = best.gbps(FIXED_FROM).median
        for name, first in (("gradient", 12), ("auto", 6)):
            if name in found:
                made.append(Goal(f"`{name}`, epochs {first} to {EPOCHS}, ÷ best fixed",
                                 divided(found[name].gbps(first, EPOCHS), most), 0.9))
    if DEMO in found:
        halves = spread([goodput(second_half(run)) / DEMO_LINK_BPS for run in found[DEMO].runs])
        made.append(Goal("demo, second half of its epochs, ÷ 1 Gbit/s", halves, 0.85))
    return made


def goals_table(found: dict[str, Rival]) -> str:
    return table(["what", "median (min–max)", "goal", "reached"],
                 [[goal.what, shown(goal.reached, 3), f"≥ {goal.wanted:g}", verdict(goal.reached.median, goal.wanted)]
                  for goal in goals(found)])


def whole(value: Sequence[float | None]) -> str:
    """Median and range of counts that may never have come."""
    if any(each is None for each in value):
        return "never" if all(each is None for each in value) else "not always"
    return shown(spread([each for each in value if each is not None]), 0)


def rules_table(found: dict[str, Rival]) -> str:
    best = best_fixed(found)
    rows = []
    for rule in RULES:
        rival = found.get(rule.name)
        if rival is None or best is None:
            continue
        most = best.gbps(FIXED_FROM).median
        first = [reached(between(run, 1, EPOCHS), most * 0.95e9) for run in rival.runs]
        seconds = [None if at is None else run[at - 1].end_s for at, run in zip(first, rival.runs)]
        counts = [epoch.streams for run in rival.runs for epoch in between(run, 12, EPOCHS)]
        rows.append([f"`{rule.name}`", f"{rule.epoch_s:g} s", shown(rival.gbps(1, EPOCHS)),
                     shown(rival.gbps(6, EPOCHS)), shown(rival.gbps(12, EPOCHS)),
                     f"{rival.gbps(12, EPOCHS).median / most:.3f}", whole(first),
                     whole(seconds), shown(rival.over(streams, 12, EPOCHS), 1), f"{min(counts)}–{max(counts)}",
                     f"{rival.cpu.median:.2f}", str(len(rival.runs))])
    return table(["rule", "epoch", f"Gbit/s, epochs 1–{EPOCHS}", f"6–{EPOCHS}", f"12–{EPOCHS}", "÷ best fixed",
                  "epochs to 95 %", "s", "mean streams", "min–max", "CPU s/GB", "n"], rows)


def fixed_table(found: dict[str, Rival]) -> str:
    best = best_fixed(found)
    rows = []
    for name, rival in sorted(found.items(), key=lambda item: item[1].runs[0][0].streams):
        if name.startswith(FIXED) and best is not None:
            rate = rival.gbps(FIXED_FROM)
            rows.append([name.removeprefix(FIXED) + (" (best)" if rival is best else ""), shown(rate, 3),
                         f"{rate.median / best.gbps(FIXED_FROM).median:.3f}", f"{rival.cpu.median:.2f}",
                         str(len(rival.runs))])
    return table(["streams", "Gbit/s", "÷ best", "CPU s/GB", "n"], rows)


def demo_table(records: Iterable[Record]) -> str:
    rows = []
    for record in records:
        if record.ok and record.contender == DEMO:
            run = epochs(record.notes["epochs"])
            last = ", ".join(map(str, run[-1].workers))
            rows.append([str(record.repeat + 1), "yes" if record.notes["verified"] else "no",
                         f"{record.rate_bps / 1e9:.3f}", f"{goodput(second_half(run)) / 1e9:.3f}", str(len(run)), last,
                         f"{record.cpu_s_per_gb:.2f}"])
    return table(["run", "verified", "Gbit/s in all", "Gbit/s, second half", "epochs",
                  "workers at the end: read, network, write", "CPU s/GB"], rows)


def middle(runs: Sequence[Sequence[Epoch]]) -> int:
    """Which run has the median goodput."""
    rates = [goodput(run) for run in runs]
    return rates.index(statistics.median_low(rates))


def line(rival: Rival, colour: str, label: str, value: Callable[[Epoch], float], stroke: float = 2.2) -> plot.Line:
    drawn = [[(e.end_s, value(e)) for e in between(run, 1, EPOCHS)] for run in rival.runs]
    bold = middle(rival.runs)
    return plot.Line(label, colour, drawn[bold], [points for i, points in enumerate(drawn) if i != bold], stroke)


def rules_picture(found: dict[str, Rival]) -> str | None:
    best = best_fixed(found)
    if best is None or not {"auto", "gradient"} <= found.keys():
        return None
    most = best.gbps(FIXED_FROM).median
    chosen = [("gradient", plot.ORANGE, f"gradient, {EPOCHS} epochs of 3 s"),
              ("auto", plot.BLUE, f"auto, {EPOCHS} epochs of 1 s")]
    return plot.draw("2 Gbit/s link, 200 Mbit/s a stream", [
        plot.Panel(f"goodput, Gbit/s (dashed: best fixed number, {most:.2f})",
                   [line(found[name], colour, label, lambda e: e.goodput_bps / 1e9) for name, colour, label in chosen],
                   [most]),
        plot.Panel(f"streams (dashed: {NEEDED} are needed)",
                   [line(found[name], colour, label, lambda e: e.streams) for name, colour, label in chosen], [NEEDED]),
    ], "bold: the run of median goodput; faint: its repeats")


def demo_picture(found: dict[str, Rival]) -> str | None:
    if DEMO not in found:
        return None
    demo = found[DEMO]
    run = demo.runs[middle(demo.runs)]

    def stages(value: Callable[[Epoch, int], float]) -> list[plot.Line]:
        # Wide below narrow, so that lines that lie on one another are all seen.
        strokes = [("read", plot.SKY, 6), ("network", plot.ORANGE, 3.5), ("write", plot.BLACK, 1.5)]
        return [plot.Line(f"{name} (best: {DEMO_BEST[name]})", colour, [(e.end_s, value(e, i)) for e in run],
                          stroke=stroke)
                for i, (name, colour, stroke) in enumerate(strokes)]

    return plot.draw("tidegate demo: readers of 80, streams of 160, writers of 200 Mbit/s on a link of 1 Gbit/s", [
        plot.Panel("workers", stages(lambda e, i: e.workers[i]), list(DEMO_BEST.values())),
        plot.Panel("throughput, Mbit/s", stages(lambda e, i: e.rates_bps[i] / 1e6)),
    ], "the run of median goodput")


def raw(records: Iterable[Record]) -> str:
    """Every epoch of every good run, so that the tables can be made again."""
    lines = ["rule,run,epoch,end_s,measured_s,read_workers,network_workers,write_workers,"
             "read_bps,network_bps,write_bps\n"]
    for record in records:
        if record.ok:
            for i, e in enumerate(epochs(record.notes["epochs"]), 1):
                numbers = [*e.workers, *(round(rate) for rate in e.rates_bps)]
                lines.append(f"{record.contender},{record.repeat + 1},{i},{e.end_s:.3f},{e.measured_s:.3f},"
                             f"{','.join(map(str, numbers))}\n")
    return "".join(lines)


def page(records: Sequence[Record], pictures: bool = True) -> str:
    found = rivals(records)
    if not found:
        return "# Control rules on a path that needs ten streams\n\nNothing has been measured yet.\n"
    newest = max(records, key=lambda record: record.time)
    parts = [
        "# Control rules on a path that needs ten streams\n",
        f"Made by `{COMMAND}`; do not edit by hand.\n",
        f"{install.describe()}. {newest.version}, {newest.time[:10]}. Two network namespaces on one veth pair, MTU "
        f"1500, TCP cubic; the link carries {CAPPED.rate_mbit} Mbit/s in all (tbf) and a connection at most "
        f"{CAPPED.per_connection_mbit} Mbit/s (a pacing rate set by eBPF). Memory to memory, the order changes from "
        "one repeat to the next. Goodput is the least of the three stages, as the program measures it in each epoch; "
        "where the number of workers changed, the start of the epoch is not measured. Means weight each epoch by the "
        "time measured. Headers take 4 % of the link. Every figure is the median over the repeats, with the range.\n",
        f"```\n{PROBE}\n{DEMO_COMMAND}\n```\n",
        goals_table(found)]
    if pictures:
        parts.append("![goodput and streams over time under auto and gradient](controllers.svg)\n")
    parts += ["## Rules\n",
              "Streams are those of epochs 12 on. The 95 % are of the best fixed number.\n", rules_table(found),
              "## Fixed numbers\n", f"Epochs from {FIXED_FROM} on, of 1 s.\n", fixed_table(found),
              "## Demo\n",
              "Its optimum is 13 readers, 7 streams and 5 writers. The rate in all includes the start, of one worker a "
              "stage, and the end.\n", demo_table(sorted(records, key=lambda record: record.repeat))]
    if pictures:
        parts.append("![workers and throughput of the demo over time](controllers-demo.svg)\n")
    failed = [record for record in records if not record.ok]
    if failed:
        parts.append("Runs that failed and are not counted:\n")
        parts.append("".join(f"- {record.contender}, repeat {record.repeat + 1}: {record.error}\n"
                             for record in failed))
    parts.append("Every epoch of every run is in [controllers.csv](controllers.csv).\n")
    return "\n".join(parts)


def write(records: Sequence[Record], output: Path) -> None:
    """The page, and beside it what it shows."""
    output.parent.mkdir(parents=True, exist_ok=True)
    found = rivals(records)
    drawn = {f"{output.stem}.svg": rules_picture(found), f"{output.stem}-demo.svg": demo_picture(found)}
    for name, picture in drawn.items():
        if picture is not None:
            output.with_name(name).write_text(picture)
    output.write_text(page(records, all(drawn.values())))
    output.with_suffix(".csv").write_text(raw({record.key: record for record in records if record.ok}.values()))
    print(f"wrote {output}")
