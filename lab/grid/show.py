"""A grid as tables, a CSV file and pictures over time."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from lab.grid.case import Case
from lab.grid.figures import Found, Run, median_time, medians, middle, ratio
from lab.pages import plot
from lab.pages.parts import csv, mbit, seconds, table
from lab.runs.epochs import STAGES, Epoch

# Below a picture of `repeats`.
REPEATS = "bold: the run of median goodput; faint: its repeats"
COLOURS = (plot.BLUE, plot.ORANGE, plot.SKY, plot.BLACK)


def case_table(found: Found, case: Case, own: str) -> str:
    """All movers on one link, fastest first; `own` is the one the last ratio is about."""
    there = found.get(case.name, {})
    order = sorted(there, key=lambda name: -medians(there[name]))
    if not order:
        return "Not measured.\n\n"
    top = there[order[0]]
    # Nine tenths of what the link carries, or of what the fastest got where nothing says.
    wanted = 0.9 * min(medians(top), case.goodput_bps or float("inf"))
    rows = []
    for name in order:
        runs = there[name]
        rates = [run.bps for run in runs]
        beside = "" if name == own or own not in there else str(ratio(there[own], runs) or "")
        rows.append([f"**{name}**" if name == own else name, mbit(medians(runs)),
                     f"{mbit(min(rates))}–{mbit(max(rates))}", f"{medians(runs) / medians(top):.2f}", beside,
                     seconds(median_time(runs, wanted)), f"{medians(runs, lambda run: run.streams):.1f}",
                     f"{medians(runs, lambda run: run.record.cpu_s_per_gb):.2f}", str(len(runs))])
    return table(["mover", "Mbit/s", "min–max", "of the row's first", f"{own} ÷ this (95 %)", "s to 90 %", "connections",
                  "CPU s/GB", "n"], rows)


def raw(found: Found) -> str:
    """Every run as a line of CSV."""
    heads = ("link", "mover", "repeat", "mbit_s", "seconds", "connections", "cpu_s_per_gb", "other_cpus", "verified", "version")
    rows = [(case, name, run.record.repeat + 1, f"{run.bps / 1e6:.1f}", f"{run.record.seconds:.2f}", f"{run.streams:.2f}",
             f"{run.record.cpu_s_per_gb:.3f}", run.record.notes["noise"]["other_cpus"], run.record.verified, run.record.version)
            for case, there in found.items() for name, runs in there.items() for run in runs]
    return csv(heads, rows)


# Some movers with their colours and runs.
Shown = Sequence[tuple[str, str, Sequence[Run]]]
Value = Callable[[Run], plot.Points]


def shown(there: Mapping[str, Sequence[Run]], movers: Iterable[str], colours: Sequence[str] = COLOURS) -> Shown:
    """Those that were measured; each keeps its colour whoever is missing."""
    return [(name, colour, there[name]) for name, colour in zip(movers, colours) if name in there]


def repeats(those: Shown, value: Value = Run.staircase) -> list[plot.Line]:
    """A line for each mover: its median run bold, the others faint."""
    return [plot.Line(name, colour, value(middle(runs)), [value(run) for run in runs if run is not middle(runs)])
            for name, colour, runs in those]


def bold(those: Shown, value: Value) -> list[plot.Line]:
    """The median runs alone."""
    return [plot.Line(name, colour, value(middle(runs))) for name, colour, runs in those]


def logged(those: Shown, value: Callable[[Epoch], float]) -> list[plot.Line]:
    """The median runs by their own logs, as far as they have one."""
    return bold([each for each in those if middle(each[2]).logs],
                lambda run: [(e.end_s, value(e)) for e in run.logs[0]])


def stages(log: Sequence[Epoch], value: Callable[[Epoch, int], float], labels: Sequence[str] = STAGES) -> list[plot.Line]:
    """A line a stage, wide below narrow, so that lines that lie on one another are all seen."""
    looks = zip(labels, (plot.SKY, plot.ORANGE, plot.BLACK), (6.0, 3.5, 1.5))
    return [plot.Line(label, colour, [(e.end_s, value(e, i)) for e in log], stroke=stroke)
            for i, (label, colour, stroke) in enumerate(looks)]


def over_time(found: Found, case: Case, movers: Iterable[str], title: str = "", marks: Sequence[float] = ()) -> str | None:
    """Rate and connections of some movers over time, the median run bold; None where none was measured."""
    those = shown(found.get(case.name, {}), movers)
    if not those:
        return None
    return plot.draw(title or case.title, [plot.Panel("goodput, Mbit/s", repeats(those), marks),
                                           plot.Panel("connections", bold(those, Run.connections))], REPEATS)


def by_stage(found: Found, case: Case, mover: str) -> str | None:
    """Readers, streams and writers of one mover of ours over time."""
    runs = found.get(case.name, {}).get(mover)
    if not runs or not middle(runs).logs:
        return None
    log = middle(runs).logs[0]
    rate = plot.Line(mover, plot.BLUE, [(e.end_s, e.goodput_bps / 1e6) for e in log])
    return plot.draw(f"{case.title}: {mover}", [
        plot.Panel("goodput, Mbit/s", [rate]),
        plot.Panel("workers (broad: read, middle: network, thin: write)", stages(log, lambda e, i: e.workers[i]))])
