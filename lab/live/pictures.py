"""Goodput and workers on live paths over time, as SVG."""

import statistics
from collections.abc import Callable, Sequence

from lab.pages import plot
from lab.runs.epochs import STAGES, Epoch
from lab.live.experiments import CAPS, LINK_MBIT, STREAM_MBIT, Experiment
from lab.live.bars import DEFAULT, LINK_BPS, Runs, alone, changing, means, share, shared, steps_of

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
