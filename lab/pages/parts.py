"""What every page of results is made of."""

import io
from collections.abc import Container, Iterable, Sequence
from csv import writer
from dataclasses import dataclass

from lab.ground.stats import Ratio


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, and a blank line after it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines) + "\n"


# In place of what a page is to show.
ABSENT = "Not measured yet.\n\n"


def measured_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same, which may have no rows yet."""
    return table(heads, rows) if rows else ABSENT


def image(drawn: Container[str], name: str, what: str) -> str:
    """A picture, if it was drawn."""
    return f"![{what}]({name})\n\n" if name in drawn else ""


def csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer(text, lineterminator="\n").writerows([heads, *rows])
    return text.getvalue()


# By these the report finds the bars of every page.
BAR_HEADS = ("what", "wanted", "measured", "n", "met")


@dataclass(frozen=True)
class Bar:
    """Something that is to be reached, and what was measured."""

    what: str
    wanted: str
    measured: str
    met: bool | None
    # Runs, of each side where there are two.
    count: int | str

    @property
    def verdict(self) -> str:
        return "" if self.met is None else "yes" if self.met else "no"

    def row(self) -> list[str]:
        verdict = self.verdict.replace("no", "**no**")
        return [self.what, self.wanted, self.measured, str(self.count), verdict]


def at_least(what: str, measured: Ratio | None, least: float) -> list[Bar]:
    """That the median of a ratio reaches so much; nothing where it was not measured."""
    if measured is None:
        return []
    return [Bar(what, f"≥ {least:g}", str(measured), measured.median >= least, measured.count)]


def bars_table(bars: Iterable[Bar]) -> str:
    return table(BAR_HEADS, [bar.row() for bar in bars])


def measured_bars(bars: Sequence[Bar]) -> str:
    return bars_table(bars) if bars else ABSENT


def mbit(bps: float) -> str:
    return f"{bps / 1e6:,.0f}"


def seconds(value: float | None, digits: int = 0) -> str:
    return "never" if value is None else f"{value:.{digits}f}"
