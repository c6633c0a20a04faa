"""Staircases over time as SVG: panels one below the other with a common axis of seconds."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP, FOOT = 820, 180, 58, 20, 46, 60, 46
# Characters of a title that fit in a line; there is room for a second one.
TITLE = 92
# Colours that remain apart for those who see fewer.
BLUE, ORANGE, SKY, BLACK = "#0072b2", "#d55e00", "#56b4e9", "#222222"
STYLE = ("text { font: 13px system-ui, sans-serif; fill: #333 } .title { font-weight: 600; font-size: 15px } "
         ".right { text-anchor: end } .middle { text-anchor: middle } .small { font-size: 12px; fill: #666 } "
         ".grid { stroke: #e4e4e4 } .axis { stroke: #888 } .mark { stroke: #555; stroke-dasharray: 2 5 } "
         "path { fill: none; stroke-linejoin: round } .faint { opacity: .3; stroke-width: 1.2 }")

# End of an epoch in seconds, and the value that held until then.
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """One run drawn bold, its repeats faint behind it."""

    label: str
    colour: str
    bold: Points
    faint: Sequence[Points] = ()
    stroke: float = 2.2


@dataclass(frozen=True)
class Panel:
    """Lines over time, and the values that are dashed across."""

    label: str
    lines: Sequence[Line]
    marks: Sequence[float] = ()

    @property
    def most(self) -> float:
        values = [value for line in self.lines for points in (line.bold, *line.faint) for _, value in points]
        return max([*values, *self.marks], default=0.0) * 1.12 or 1.0


def ticks(most: float, wanted: int = 4) -> list[float]:
    """Round numbers from zero to `most`, about as many as wanted."""
    raw = most / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    return [i * step for i in range(int(most / step + 1e-9) + 1)]


def time_ticks(seconds: float) -> list[float]:
    """Steps people count seconds in."""
    step = next((s for s in (1, 2, 5, 10, 15, 30, 60, 120) if seconds / s <= 12), seconds / 10)
    return [i * step for i in range(int(seconds / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Frame:
    """Where a panel lies, and how its values become coordinates."""

    panel: Panel
    top: float
    seconds: float

    def x(self, t: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * t / self.seconds

    def y(self, value: float) -> float:
        return self.top + HEIGHT * (1 - value / self.panel.most)

    def staircase(self, points: Points) -> str:
        """Path data: each value holds from the point before to its own."""
        parts: list[str] = []
        before = 0.0
        for t, value in points:
            y = f"{self.y(value):.1f}"
            parts.append(f"{'V' + y if parts else f'M{self.x(before):.1f} {y}'}H{self.x(t):.1f}")
            before = t
        return "".join(parts)

    def svg(self) -> list[str]:
        right, bottom = WIDTH - RIGHT, self.top + HEIGHT
        out = [f'<text x="{LEFT}" y="{self.top - 12:g}">{escape(self.panel.label)}</text>']
        for value in ticks(self.panel.most):
            y = self.y(value)
            out += [f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>',
                    f'<text class="right" x="{LEFT - 8}" y="{y + 4:.1f}">{value:g}</text>']
        for t in time_ticks(self.seconds):
            x = self.x(t)
            out += [f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:g}" y2="{bottom + 4:g}"/>',
                    f'<text class="middle" x="{x:.1f}" y="{bottom + 18:g}">{t:g}</text>']
        out.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom:g}" y2="{bottom:g}"/>')
        for line in self.panel.lines:
            out += [f'<path class="faint" d="{self.staircase(points)}" stroke="{line.colour}"/>'
                    for points in line.faint if points]
            out.append(f'<path d="{self.staircase(line.bold)}" stroke="{line.colour}" stroke-width="{line.stroke:g}"/>')
        # Above the lines, which often lie on them.
        out += [f'<line class="mark" x1="{LEFT}" x2="{right}" y1="{self.y(mark):.1f}" y2="{self.y(mark):.1f}"/>'
                for mark in self.panel.marks]
        return out


# About the width of a letter.
LETTER = 6.7


def crowded(panel: Panel) -> bool:
    """Whether the panel's label and the legend do not fit on one line."""
    labels = sum(LETTER * len(line.label) + 44 for line in panel.lines)
    return LETTER * len(panel.label) + labels > WIDTH - LEFT - RIGHT


def legend(lines: Sequence[Line], y: float) -> list[str]:
    """From the right, the first line first."""
    out, right = [], float(WIDTH - RIGHT)
    for line in reversed(lines):
        x = right - LETTER * len(line.label)
        out += [f'<line stroke="{line.colour}" stroke-width="{line.stroke + .8:g}" x1="{x - 26:.0f}" '
                f'x2="{x - 6:.0f}" y1="{y - 4:g}" y2="{y - 4:g}"/>',
                f'<text x="{x:.0f}" y="{y:g}">{escape(line.label)}</text>']
        right = x - 44
    return out


def draw(title: str, panels: Sequence[Panel], remark: str = "") -> str:
    """The whole picture; the first panel gives the legend."""
    seconds = max(points[-1][0] for panel in panels for line in panel.lines
                  for points in (line.bold, *line.faint) if points)
    # The legend has a line of its own where it would run into the label.
    more = 22 if crowded(panels[0]) else 0
    frames = [Frame(panel, TOP + 28 + more + i * (HEIGHT + GAP), seconds) for i, panel in enumerate(panels)]
    height = frames[-1].top + HEIGHT + FOOT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
           f'height="{height:g}" role="img" aria-label="{escape(title)}">',
           f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{height:g}" fill="white"/>',
           *(f'<text class="title" x="{LEFT}" y="{24 + 18 * i}">{escape(line)}</text>'
             for i, line in enumerate(textwrap.wrap(title, TITLE))),
           *legend(panels[0].lines, frames[0].top - 12 - more)]
    for frame in frames:
        out += frame.svg()
    out += [f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{height - 8:g}">seconds</text>',
            f'<text class="right small" x="{WIDTH - RIGHT}" y="{height - 8:g}">{escape(remark)}</text>', "</svg>"]
    return "\n".join(out) + "\n"
