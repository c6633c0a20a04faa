"""Figures 3 to 5 on the page: the paper's finding, then ours, with pictures."""

import statistics
from collections.abc import Sequence

from lab.eos import iperf
from lab.eos.found import Found, middle, noted
from lab.eos.gridftp import FIGURE_3, FIGURE_4, MB, Figure
from lab.eos.sampled import Sampled, sampled, scale
from lab.eos.site import FAST
from lab.ground.results import Record
from lab.pages import curve
from lab.pages.parts import csv, mbit, table
from lab.pages.plot import BLUE, ORANGE, SKY

NOT_YET = "Not measured yet.\n"
PAPER = {3: "In the paper, one stream reached 100 Mbit/s at most and the optimized transfer up to 900; samples larger "
            "than 25 MB brought no more; sampling and the optimized transfer together took less time than one stream "
            "everywhere, but for 256 MB with samples of 100 MB.",
         4: "In the paper, files of 100, 256 and 512 MB with samples of 1 to 8 MB reached up to 23 Mbit/s.",
         5: "In the paper, samples of one second were enough; the transfer reached up to 900 Mbit/s against 100; the "
            "advice was steadier than that of GridFTP samples, and the estimate close to what was achieved."}
HEADS = ("file", "samples, MB", "streams", "one stream, s", "samples, s", "optimized, s", "both, s",
         "one stream ÷ both", "Mbit/s predicted", "Mbit/s achieved", "predicted ÷ achieved",
         "one stream ÷ service (tidegate)", "EOS's models: streams", "EOS's: Mbit/s predicted", "EOS's: Mbit/s achieved",
         "one stream ÷ both, EOS's", "n")


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def row(cell: Sampled) -> list[str]:
    asking, moving, predicted = (cell.median(key) for key in ("estimate_s", "globus_s", "predicted_bps"))
    achieved = cell.bytes * 8 / moving
    mark = " (declined)" if cell.declined else ""
    return [f"{cell.label}, 1/{scale(cell):g}" if round(scale(cell), 3) != 1 else cell.label,
            f"{cell.samples_mb:g}{mark}", f"{cell.median('streams'):g}", f"{cell.plain_s:.1f}", f"{asking:.1f}",
            f"{moving:.1f}", f"{asking + moving:.1f}", times(cell.globus_ratio), mbit(predicted), mbit(achieved),
            f"{predicted / achieved:.2f}", times(cell.ours_ratio), f"{cell.median('published_streams'):g}",
            "" if cell.published_bps is None else mbit(cell.published_bps), mbit(cell.bytes * 8 / cell.median("published_s")),
            times(cell.published_ratio), str(cell.count)]


def picture(number: int, label: str, cells: Sequence[Sampled]) -> str:
    """Seconds against the size of samples, for one file."""
    asking, moving = ([cell.median(key) for cell in cells] for key in ("estimate_s", "globus_s"))

    def line(name: str, colour: str, seconds: Sequence[float], dashed: bool = False) -> curve.Curve:
        return curve.Curve(name, colour, [(cell.samples_mb, s) for cell, s in zip(cells, seconds)], dashed=dashed)

    lines = [line("one stream", "#555555", [cell.plain_s for cell in cells], dashed=True),
             line("samples", ORANGE, asking), line("optimized", "#009e73", moving),
             line("both", BLUE, [a + b for a, b in zip(asking, moving)]),
             line("both, by EOS's models", SKY, [a + cell.median("published_s") for a, cell in zip(asking, cells)],
                  dashed=True)]
    divided = f", divided by {scale(cells[0]):g}" if round(scale(cells[0]), 3) != 1 else ""
    return curve.draw(f"EOS figure {number}: {label}{divided}, GridFTP", lines, "samples, MB in the paper's scale",
                      "seconds", remark="medians")


# Of two streams beside one, on paths where a connection is capped far below half of the link.
HIDDEN = 1.5


def explained(figure: Figure, cells: Sequence[Sampled]) -> str:
    declined = [f"{cell.label} with {cell.samples_mb:g} MB" for cell in cells if cell.declined]
    said = (f"The estimator by itself declines to sample for {', '.join(declined)}: a file of less than ten samples. "
            "There it "
            "was told to sample all the same, and the last ratio is that of a copy without advice, which adapts.\n"
            if declined else "")
    if blind := [f"{cell.label} with {cell.samples_mb:g} MB ({cell.doubling:.2f})" for cell in cells
                 if cell.doubling < HIDDEN]:
        said += (f"Two streams measured less than {HIDDEN:g} times what one did for {', '.join(blind)}, though the path gives "
                 "twice as much: so small a sample fills hardly more than one of GridFTP's blocks, and the streams "
                 "have nothing to share. The advice is too low there.\n")
    return (f"{PAPER[figure.number]}\n\nHere: {figure.limits}. A file marked 1/x is cut by x, and its samples with it. "
            "Samples and optimized transfer are the wall time of `tidegate estimate --sampler gridftp --sample-size …` "
            "and then of `globus-url-copy -p n` with the n it advised; one stream is `globus-url-copy` as it is. What "
            "was achieved includes starting the program. The last ratio is our own copy with one stream against the "
            "service: the same samples and then our copy, which begins with n and adapts. EOS's models are those of "
            "`--model published`: what they advise by the same samples, and `globus-url-copy` with that. Every copy was "
            f"compared with its source.\n\n{said}")


def figure_3_or_4(found: Found, figure: Figure, beside: dict[str, str]) -> str:
    cells = sampled(found.of(figure.shard))
    head = f"## Figure {figure.number}: sampling by GridFTP on a {'fast' if figure.number == 3 else 'slow'} path\n\n"
    if not cells:
        return f"{head}{PAPER[figure.number]}\n\n{NOT_YET}"
    rows = [row(cell) for cell in cells]
    beside[f"eos-figure{figure.number}.csv"] = csv(HEADS, rows)
    shown = []
    for label in dict.fromkeys(cell.label for cell in cells):
        those = [cell for cell in cells if cell.label == label]
        if len(those) > 1 and all(cell.plain_s for cell in those):
            name = f"eos-figure{figure.number}-{label.replace(' ', '').lower()}.svg"
            beside[name] = picture(figure.number, label, those)
            shown.append(f"![{label}: seconds against the size of samples]({name})\n")
    return head + explained(figure, cells) + "\n" + table(HEADS, rows) + "\n".join(shown)


def spread(values: Sequence[float]) -> str:
    """Standard deviation over mean, in per cent."""
    return f"{100 * statistics.stdev(values) / statistics.fmean(values):.1f} %" if len(values) > 1 else ""


def advice_row(sampler: str, name: str, runs: Sequence[Record]) -> list[str]:
    streams = [int(run.notes["streams"]) for run in runs]
    predicted, achieved = middle(runs, noted("predicted_bps")), middle(runs, noted("iperf3_bps"))
    quotient = middle(runs, lambda run: run.notes["predicted_bps"] / run.notes["iperf3_bps"])
    return [f"{sampler}, {name}", f"{middle(runs):.1f}", f"{statistics.median(streams):g} "
                                                         f"({min(streams)}–{max(streams)})",
            mbit(predicted), mbit(achieved), mbit(middle(runs, noted("globus_bps"))), f"{quotient:.2f}",
            spread([run.notes["predicted_bps"] for run in runs]), spread(streams),
            f"{middle(runs, noted('published_streams')):g}", mbit(middle(runs, noted("published_bps"))),
            mbit(middle(runs, noted("published_achieved_bps"))), str(len(runs))]


def number_of(name: str) -> float:
    return float(name.split()[0])


def figure_5(found: Found, beside: dict[str, str]) -> str:
    cells = found.of(iperf.SHARD)
    head = f"## Figure 5: sampling by iperf3\n\n{PAPER[5]}\n\n"
    advice = [(sampler, name, cells[sampler][name]) for sampler in (iperf.IPERF3, iperf.GRIDFTP) if sampler in cells
              for name in sorted(cells[sampler], key=number_of)]
    if not advice:
        return head + NOT_YET
    heads = ("sampler, each sample", "asking, s", "streams (range)", "Mbit/s predicted", "achieved, iperf3",
             "achieved, globus-url-copy", "predicted ÷ achieved (iperf3)", "spread of the prediction",
             "spread of the streams", "EOS's models: streams", "EOS's: Mbit/s predicted", "EOS's: achieved, iperf3", "n")
    rows = [advice_row(*each) for each in advice]
    if one := cells.get(iperf.ONE_STREAM, {}).get("unoptimized"):
        rows.insert(0, ["one stream, not asked", "", "1", "", mbit(middle(one, noted("iperf3_bps"))),
                        mbit(middle(one, noted("globus_bps"))), "", "", "", "", "", "", str(len(one))])
    beside["eos-figure5.csv"] = csv(heads, rows)
    parts = [head, f"Here: {FAST}. The advice is that for 10 GB; then as many streams as it says carry data, by "
                   f"iperf3 for {iperf.CHECK_S:g} s from memory to memory and by `globus-url-copy` a file of "
             f"{iperf.FILE // MB} MB. EOS's models are those of `--model published`, by the same samples. Spread is standard "
             "deviation ÷ mean over the repeats.\n\n",
             table(heads, rows)]
    lasting = [(number_of(name), runs) for sampler, name, runs in advice if sampler == iperf.IPERF3]
    if len(lasting) > 1:
        def line(name: str, colour: str, key: str) -> curve.Curve:
            points = [(at, middle(runs, noted(key)) / 1e6) for at, runs in lasting]
            edges = [(at, min(r.notes[key] for r in runs) / 1e6, max(r.notes[key] for r in runs) / 1e6)
                     for at, runs in lasting]
            return curve.Curve(name, colour, points, edges)

        lines = [line("predicted", ORANGE, "predicted_bps"), line("iperf3", BLUE, "iperf3_bps"),
                 line("globus-url-copy", "#009e73", "globus_bps")]
        beside["eos-figure5.svg"] = curve.draw("EOS figure 5: predicted and achieved after iperf3 samples", lines,
                                               "seconds of each sample", "Mbit/s", remark="medians, ranges faint")
        parts.append("![Mbit/s predicted and achieved against the length of samples](eos-figure5.svg)\n")
    return "".join(parts)


def sections(found: Found, beside: dict[str, str]) -> list[str]:
    return [figure_3_or_4(found, FIGURE_3, beside), figure_3_or_4(found, FIGURE_4, beside), figure_5(found, beside)]
