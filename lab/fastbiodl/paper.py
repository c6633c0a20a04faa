"""What FastBioDL's paper reports (Swargo, Arslan, Arifuzzaman), and the sets of ours that have the shape of its own."""

from dataclasses import dataclass

from lab.pages.published import Published, quotient

# Table 1: Mbit/s and mean concurrency by k.
TABLE_1 = {1.01: (701.2, 6.77), 1.02: (815.8, 6.23), 1.05: (743.9, 4.64)}
K = 1.02
# Figure 4: Bayesian optimisation is about a fifth slower than gradient descent.
FIGURE_4 = Published(1 / 0.8)


@dataclass(frozen=True)
class Row:
    """Table 3: Mbit/s with its standard deviation, and the concurrency."""

    tool: str
    mbit: float
    deviation: float
    concurrency: float

    @property
    def each_mbit(self) -> float:
        """Of one connection."""
        return self.mbit / self.concurrency

    def __str__(self) -> str:
        return f"{self.tool}: {self.mbit:g} ± {self.deviation:g}, {self.concurrency:g} at once"


@dataclass(frozen=True)
class Set:
    """One data set of table 2, and our name for its shape."""

    ours: str
    title: str
    rows: tuple[Row, Row, Row]  # fixed 3 (prefetch), fixed 8 (pysradb), FastBioDL

    def ratio(self, fixed: int) -> Published:
        """FastBioDL to the tool with that fixed number."""
        own, tool = ((row.mbit, row.deviation) for row in (self.rows[2], self.rows[0 if fixed == 3 else 1]))
        return quotient(own, tool)


def rows(prefetch: tuple[float, float], pysradb: tuple[float, float],
         own: tuple[float, float, float]) -> tuple[Row, Row, Row]:
    return Row("prefetch", *prefetch, 3), Row("pysradb", *pysradb, 8), Row("FastBioDL", *own)


TABLE_3 = (
    Set("H10", "Breast-RNA-seq, 10 files, 22.06 GB", rows((517.70, 40.12), (749.32, 141.82), (989.12, 92.35, 3.42))),
    Set("H6", "HiFi-WGS, 6 files, 56.15 GB", rows((246.82, 18.97), (220.56, 82.67), (594.75, 50.52, 4.92))),
    Set("H43", "Amplicon-Digester, 43 files, 1.91 GB", rows((29.15, 3.53), (29.10, 2.17), (117.47, 2.03, 4.14))))


@dataclass(frozen=True)
class Figure6:
    """One case: its link and what a thread may move in Mbit/s, and the means the paper names."""

    case: str
    link_mbit: float
    thread_mbit: float
    mbit: float | None
    concurrency: float


FIGURE_6 = (Figure6("fig6-1", 10_000, 500, 7500, 10), Figure6("fig6-2", 10_000, 1400, 9300, 6),
            Figure6("fig6-3", 20_000, 1400, None, 14))
