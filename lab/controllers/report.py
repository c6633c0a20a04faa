"""The page about the control rules, its two pictures, and the epochs it was made from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.controllers.cells import (DEMO, DEMO_SHOWN, EPOCHS, FIXED, NAME, QUICK, QUICK_S, SHOWN, SLOW,
                                   SLOW_S)
from lab.grid.engine import fixed
from lab.grid.figures import Found, Run, found_in
from lab.grid.show import REPEATS, stages
from lab.ground.results import Record, builds
from lab.ground.stats import Spread, median_at, shown, spread
from lab.install import describe
from lab.pages import plot
from lab.pages.parts import Bar, bars_table, csv, measured_table, table
from lab.runs.epochs import HEADS, STAGES, Epoch, between, goodput, reached, second_half, streams
from lab.shard import Page, known

DEMO_LINK_BPS = 1e9
DEMO_BEST = {"read": 13, "network": 7, "write": 5}
NEEDED = 10
# Connections are made and windows grow in the first second or two.
FIXED_FROM = 3
# A run of fewer epochs says nothing of what comes after a rule has found its number.
LEAST = 12
FIXED_NAMES = [fixed(n).name for n in FIXED]
RULES = [(rule.name, epoch_s) for those, epoch_s in ((QUICK, QUICK_S), (SLOW, SLOW_S)) for rule in those]


@dataclass(frozen=True)
class Rival:
    """One rule or fixed number and its runs."""

    name: str
    runs: Sequence[Sequence[Epoch]]
    cpu: Spread
    # Content that arrived at the receiver's device, in Gbit/s of the whole run.
    arrived: Spread

    def over(self, figure: Callable[[Sequence[Epoch]], float], first: int, last: int | None = None) -> Spread:
        return spread([figure(between(run, first, last)) for run in self.runs])

    def gbps(self, first: int, last: int | None = None) -> Spread:
        return self.over(lambda run: goodput(run) / 1e9, first, last)


def rivals(found: Found) -> dict[str, Rival]:
    """Every mover by name, on whichever of the cases it was measured."""
    return {name: Rival(name, [run.logs[0] for run in runs], spread([run.record.cpu_s_per_gb for run in runs]),
                        spread([run.bps / 1e9 for run in runs]))
            for there in found.values() for name, every in there.items()
            if (runs := [run for run in every if run.logs and len(run.logs[0]) >= LEAST])}


def best_fixed(found: Mapping[str, Rival]) -> Rival | None:
    return max((found[name] for name in FIXED_NAMES if name in found),
               key=lambda rival: rival.gbps(FIXED_FROM, EPOCHS).median, default=None)


def divided(value: Spread, by: float) -> Spread:
    return Spread(value.median / by, value.low / by, value.high / by, value.count)


def bars(found: Mapping[str, Rival]) -> list[Bar]:
    made = []
    if best := best_fixed(found):
        most = best.gbps(FIXED_FROM, EPOCHS).median
        for name, first in (("gradient", 12), ("auto", 6)):
            if name in found:
                made.append(bar(f"`{name}`, epochs {first} to {EPOCHS}, ÷ {best.name}, the best",
                                divided(found[name].gbps(first, EPOCHS), most), 0.9))
    if DEMO in found:
        halves = spread([goodput(second_half(run)) / DEMO_LINK_BPS for run in found[DEMO].runs])
        made.append(bar("demo, verified; second half of its epochs, ÷ 1 Gbit/s", halves, 0.85))
    return made


def bar(what: str, value: Spread, wanted: float) -> Bar:
    return Bar(what, f"≥ {wanted:g}", shown(value, 3), value.median >= wanted, value.count)


def whole(value: Sequence[float | None]) -> str:
    """Median and range of counts that may never have come."""
    if any(each is None for each in value):
        return "never" if all(each is None for each in value) else "not always"
    return shown(spread([each for each in value if each is not None]), 0)


def rules_table(found: Mapping[str, Rival]) -> str:
    best = best_fixed(found)
    rows = []
    for name, epoch_s in RULES:
        rival = found.get(name)
        if rival is None or best is None:
            continue
        most = best.gbps(FIXED_FROM, EPOCHS).median
        first = [reached(between(run, 1, EPOCHS), most * 0.95e9) for run in rival.runs]
        seconds = [None if at is None else run[at - 1].end_s for at, run in zip(first, rival.runs)]
        counts = [epoch.streams for run in rival.runs for epoch in between(run, 12, EPOCHS)]
        rows.append([f"`{name}`", f"{epoch_s:g} s", shown(rival.gbps(1, EPOCHS)), shown(rival.gbps(6, EPOCHS)),
                     shown(rival.gbps(12, EPOCHS)), f"{rival.gbps(12, EPOCHS).median / most:.3f}", shown(rival.arrived),
                     whole(first), whole(seconds), shown(rival.over(streams, 12, EPOCHS), 1),
                     f"{min(counts)}–{max(counts)}", f"{rival.cpu.median:.2f}", str(len(rival.runs))])
    return measured_table(["rule", "epoch", f"Gbit/s, epochs 1–{EPOCHS}", f"6–{EPOCHS}", f"12–{EPOCHS}", "÷ best fixed",
                  "arrived", "epochs to 95 %", "s", "mean streams", "min–max", "CPU s/GB", "n"], rows)


def fixed_table(found: Mapping[str, Rival]) -> str:
    best = best_fixed(found)
    rows = []
    for n, name in zip(FIXED, FIXED_NAMES):
        if (rival := found.get(name)) and best is not None:
            rate = rival.gbps(FIXED_FROM, EPOCHS)
            rows.append([f"{n}{' (best)' if rival is best else ''}", shown(rate, 3),
                         f"{rate.median / best.gbps(FIXED_FROM, EPOCHS).median:.3f}", shown(rival.arrived),
                         f"{rival.cpu.median:.2f}", str(len(rival.runs))])
    return measured_table(["streams", "Gbit/s", "÷ best", "arrived", "CPU s/GB", "n"], rows)


def demo_table(runs: Iterable[Run]) -> str:
    rows = []
    for run in runs:
        log, record = run.logs[0], run.record
        rows.append([str(record.repeat + 1), "yes" if record.notes["verified"] else "no", f"{run.bps / 1e9:.3f}",
                     f"{goodput(second_half(log)) / 1e9:.3f}", str(len(log)), ", ".join(map(str, log[-1].workers)),
                     f"{record.cpu_s_per_gb:.2f}"])
    return table(["run", "verified", "Gbit/s in all", "Gbit/s, second half", "epochs",
                  "workers at the end: read, network, write", "CPU s/GB"], rows)


def line(rival: Rival, colour: str, label: str, value: Callable[[Epoch], float]) -> plot.Line:
    drawn = [[(e.end_s, value(e)) for e in between(run, 1, EPOCHS)] for run in rival.runs]
    bold = median_at([goodput(run) for run in rival.runs])
    return plot.Line(label, colour, drawn[bold], [points for i, points in enumerate(drawn) if i != bold])


def rules_picture(found: Mapping[str, Rival]) -> str | None:
    best = best_fixed(found)
    if best is None or not {"auto", "gradient"} <= found.keys():
        return None
    most = best.gbps(FIXED_FROM, EPOCHS).median
    chosen = [("gradient", plot.ORANGE, f"gradient, {EPOCHS} epochs of 3 s"),
              ("auto", plot.BLUE, f"auto, {EPOCHS} epochs of 1 s")]
    return plot.draw("2 Gbit/s link, 200 Mbit/s a stream", [
        plot.Panel(f"goodput, Gbit/s (dashed: best fixed number, {most:.2f})",
                   [line(found[name], colour, label, lambda e: e.goodput_bps / 1e9) for name, colour, label in chosen],
                   [most]),
        plot.Panel(f"streams (dashed: {NEEDED} are needed)",
                   [line(found[name], colour, label, lambda e: e.streams) for name, colour, label in chosen], [NEEDED]),
    ], REPEATS)


def demo_picture(found: Mapping[str, Rival]) -> str | None:
    if DEMO not in found:
        return None
    runs = found[DEMO].runs
    run = runs[median_at([goodput(run) for run in runs])]
    labels = [f"{name} (best: {DEMO_BEST[name]})" for name in STAGES]
    return plot.draw("tidegate demo: readers of 80, streams of 160, writers of 200 Mbit/s on a link of 1 Gbit/s", [
        plot.Panel("workers", stages(run, lambda e, i: e.workers[i], labels), list(DEMO_BEST.values())),
        plot.Panel("throughput, Mbit/s", stages(run, lambda e, i: e.rates_bps[i] / 1e6, labels)),
    ], "the run of median goodput")


def raw(found: Found) -> str:
    """Every epoch of every good run, so that the tables can be made again."""
    return csv(("rule", "run", "epoch", *HEADS),
               [(name, run.record.repeat + 1, i, *e.figures) for there in found.values() for name, runs in there.items()
                for run in runs if run.logs for i, e in enumerate(run.logs[0], 1)])


def text(found: Found, failed: Sequence[Record], drawn: Iterable[str]) -> str:
    movers = rivals(found)
    title = "# Control rules on a path that needs ten streams\n"
    if not movers:
        return f"{title}\nNothing has been measured yet.\n"
    records = [run.record for there in found.values() for runs in there.values() for run in runs]
    parts = [
        title, f"Made by `python3 -m lab report {NAME}`; do not edit by hand.\n",
        f"{describe()}. {builds(records)}, {max(record.time for record in records)[:10]}. "
        "[The link](../../lab/scenarios/ten-streams.toml): two network namespaces on one veth pair, MTU 1500, TCP "
        "cubic; 2000 Mbit/s in all (tbf) and at most 200 Mbit/s a connection (a pacing rate set by eBPF). Memory to "
        "memory, the order changes from one repeat to the next. Goodput is the least of the three stages, as the program "
        "measures it in each epoch; where the number of workers changed, the start of the epoch is not measured. Arrived is the "
        "content counted at the receiver's device over the whole run. Means weight each epoch by the time measured. "
        "Headers take 4 % of the link. Every figure is the median over the repeats, with the range.\n",
        f"```\n{SHOWN}\n{DEMO_SHOWN}\n```\n", bars_table(bars(movers))]
    if f"{NAME}.svg" in drawn:
        parts.append(f"![goodput and streams over time under auto and gradient]({NAME}.svg)\n")
    parts += ["## Rules\n", "Streams are those of epochs 12 on. The 95 % are of the best fixed number.\n",
              rules_table(movers), "## Fixed numbers\n",
              f"Epochs {FIXED_FROM} to {EPOCHS}, of {QUICK_S} s.\n", fixed_table(movers)]
    if demo := found.get(DEMO, {}).get(DEMO):
        parts += ["## Demo\n", "Its optimum is 13 readers, 7 streams and 5 writers. The rate in all includes the start, "
                  "of one worker a stage, and the end.\n", demo_table(demo)]
    if f"{NAME}-demo.svg" in drawn:
        parts.append(f"![workers and throughput of the demo over time]({NAME}-demo.svg)\n")
    if failed:
        parts += ["Runs that failed and are not counted:\n",
                  "".join(f"- {record.contender}, repeat {record.repeat + 1}: {record.error}\n" for record in failed)]
    parts.append(f"Every epoch of every run is in [{NAME}.csv]({NAME}.csv).\n")
    return "\n".join(parts)


def made(found: Found, failed: Sequence[Record] = ()) -> Page:
    """The page, and beside it what it shows."""
    movers = rivals(found)
    drawn = {f"{NAME}.svg": rules_picture(movers), f"{NAME}-demo.svg": demo_picture(movers)}
    beside = {name: picture for name, picture in drawn.items() if picture is not None}
    return Page(NAME, text(found, failed, beside), {**beside, f"{NAME}.csv": raw(found)})


def page() -> Page:
    records = known(NAME)
    return made(found_in(records, NAME), [record for record in records if not record.ok])
