"""Curves of y against x as SVG: lines with their names at their ends, on a plain or a doubling axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from lab.pages.plot import LEFT, STYLE, WIDTH, ticks

TOP, HEIGHT, FOOT = 64, 320, 62
# From the end of a line to its name, and from one name to the next.
AWAY, APART, LETTER = 8, 16, 6.7
# From pale to dark, for lines that are levels of one thing.
PALE, DARK = (0x8c, 0xc8, 0xf0), (0x00, 0x2f, 0x55)


@dataclass(frozen=True)
class Curve:
    """One line; `spread` holds the smallest and largest y at an x, drawn faint."""

    label: str
    colour: str
    points: Sequence[tuple[float, float]]
    spread: Sequence[tuple[float, float, float]] = ()
    dashed: bool = False


def levels(count: int) -> list[str]:
    """So many colours from pale to dark."""
    shares = [i / max(count - 1, 1) for i in range(count)]
    return ["#" + "".join(f"{round(pale + (dark - pale) * share):02x}" for pale, dark in zip(PALE, DARK))
            for share in shares]


@dataclass(frozen=True)
class Plane:
    """How values become coordinates."""

    left_x: float
    right_x: float
    most_y: float
    right: float
    log_x: bool

    def x(self, value: float) -> float:
        begin, end, here = (math.log2(v) if self.log_x else v for v in (self.left_x, self.right_x, value))
        return LEFT + (self.right - LEFT) * ((here - begin) / (end - begin) if end > begin else 0.5)

    def y(self, value: float) -> float:
        return TOP + HEIGHT * (1 - value / self.most_y)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)


def plane(curves: Sequence[Curve], marks: Sequence[float], log_x: bool) -> Plane:
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points] + [y for curve in curves for _, _, y in curve.spread]
    longest = max(len(curve.label) for curve in curves)
    right = WIDTH - 12 - AWAY - LETTER * longest
    # A plain axis begins at zero, as lengths are read from it.
    return Plane(min(xs) if log_x else min(0.0, *xs), max(xs), max([*ys, *marks]) * 1.08 or 1.0, right, log_x)


def spaced(wanted: Sequence[float], apart: float = APART) -> list[float]:
    """The same heights moved as little as keeps them apart, in the given order."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[list[int]] = []
    middles: list[float] = []
    for i in order:
        groups.append([i])
        middles.append(wanted[i])
        # Groups that touch become one around their common middle.
        while len(groups) > 1 and middles[-1] - middles[-2] < apart * (len(groups[-1]) + len(groups[-2])) / 2:
            joined = groups.pop(-2) + groups.pop(-1)
            middles[-2:] = [sum(wanted[j] for j in joined) / len(joined)]
            groups.append(joined)
    found = [0.0] * len(wanted)
    for group, middle in zip(groups, middles):
        for place, i in enumerate(group):
            found[i] = middle + apart * (place - (len(group) - 1) / 2)
    return found


def axes(on: Plane, x: str, y: str, xs: Sequence[float]) -> list[str]:
    bottom = TOP + HEIGHT
    out = [f'<text x="{LEFT}" y="{TOP - 8}">{escape(y)}</text>']
    for value in ticks(on.most_y):
        height = on.y(value)
        out += [f'<line class="grid" x1="{LEFT}" x2="{on.right:.1f}" y1="{height:.1f}" y2="{height:.1f}"/>',
                f'<text class="right" x="{LEFT - 8}" y="{height + 4:.1f}">{value:,g}</text>']
    for value in xs:
        at = on.x(value)
        out += [f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>',
                f'<text class="middle" x="{at:.1f}" y="{bottom + 18}">{value:g}</text>']
    return [*out, f'<line class="axis" x1="{LEFT}" x2="{on.right:.1f}" y1="{bottom}" y2="{bottom}"/>',
            f'<text class="middle" x="{(LEFT + on.right) / 2:.1f}" y="{bottom + 38}">{escape(x)}</text>']


def draw(title: str, curves: Sequence[Curve], x: str, y: str, log_x: bool = False, marks: Sequence[float] = (),
         remark: str = "") -> str:
    """The whole picture; `marks` are values dashed across. On a doubling axis every x must be above zero."""
    curves = [curve for curve in curves if curve.points]
    if not curves:
        raise ValueError(f"{title}: nothing to draw")
    on = plane(curves, marks, log_x)
    height = TOP + HEIGHT + FOOT
    xs = sorted({x for curve in curves for x, _ in curve.points}) if log_x else ticks(on.right_x, 8)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
           f'role="img" aria-label="{escape(title)}">', f"<style>{STYLE}</style>",
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text class="title" x="{LEFT}" y="22">{escape(title)}</text>', *axes(on, x, y, xs)]
    out += [f'<line class="mark" x1="{LEFT}" x2="{on.right:.1f}" y1="{on.y(mark):.1f}" y2="{on.y(mark):.1f}"/>'
            for mark in marks]
    for curve in curves:
        out += [f'<path class="faint" stroke="{curve.colour}" d="{on.path([(at, low), (at, high)])}"/>'
                for at, low, high in curve.spread if high > low]
        dashes = ' stroke-dasharray="6 4"' if curve.dashed else ""
        out.append(f'<path stroke="{curve.colour}" stroke-width="2.2"{dashes} d="{on.path(sorted(curve.points))}"/>')
        out += [f'<circle cx="{on.x(at):.1f}" cy="{on.y(value):.1f}" r="3" fill="{curve.colour}"/>'
                for at, value in curve.points]
    ends = [max(curve.points) for curve in curves]
    for curve, (at, _), level in zip(curves, ends, spaced([on.y(value) for _, value in ends])):
        out.append(f'<text x="{on.x(at) + AWAY:.1f}" y="{level + 4:.1f}" style="fill: {curve.colour}">'
                   f"{escape(curve.label)}</text>")
    return "\n".join([*out, f'<text class="right small" x="{WIDTH - 20}" y="{height - 8}">{escape(remark)}</text>',
                      "</svg>"]) + "\n"
