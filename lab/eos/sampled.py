"""Figures 3 and 4 in numbers: of each file and size of samples what asking cost, and what it brought."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.eos.found import Cells, middle, noted
from lab.eos.gridftp import GLOBUS, MB, OURS, row_of
from lab.ground.results import Record
from lab.ground.stats import paired


def doubled(samples: Sequence[Sequence[float]]) -> float:
    found = {int(streams): bps for streams, bps in samples}
    return found[2] / found[1] if found.get(1) and 2 in found else 2.0


@dataclass(frozen=True)
class Sampled:
    """One cell: medians over the repeats, in seconds; ratios are of pairs of the same repeat."""

    label: str
    samples_mb: float
    bytes: int
    runs: Sequence[Record]
    plain_globus: Sequence[Record]
    plain_ours: Sequence[Record]

    @property
    def count(self) -> int:
        return len(self.runs)

    @property
    def declined(self) -> bool:
        """Whether the estimator says by itself that samples do not pay."""
        return sum(bool(run.notes["declined"]) for run in self.runs) * 2 > len(self.runs)

    def median(self, key: str) -> float:
        """Of what every run noted under that name."""
        return middle(self.runs, noted(key))

    @property
    def doubling(self) -> float:
        """What two streams measured by what one did: 2 where connections are capped and samples large enough to show it."""
        return middle(self.runs, lambda run: doubled(run.notes.get("samples", [])))

    @property
    def plain_s(self) -> float:
        return middle(self.plain_globus) if self.plain_globus else 0.0

    @property
    def globus_ratio(self) -> float | None:
        """One stream ÷ (samples and transfer), by GridFTP."""
        return ratio(self.plain_globus, self.runs, lambda run: run.seconds)

    @property
    def published_bps(self) -> float | None:
        """What EOS's own models predict; of a single sample they say nothing."""
        said = [run for run in self.runs if run.notes["published_bps"] is not None]
        return middle(said, noted("published_bps")) if said else None

    @property
    def published_ratio(self) -> float | None:
        """The same with as many streams as EOS's own models advise by the same samples."""
        return ratio(self.plain_globus, self.runs, lambda run: run.notes["estimate_s"] + run.notes["published_s"])

    def service_s(self, run: Record) -> float:
        """What the service does: it samples where that pays and copies with the advice, else it copies without."""
        notes = run.notes
        return float(notes["declining_s"] + notes["unadvised_s"] if notes["declined"]
                     else notes["estimate_s"] + notes["ours_s"])

    @property
    def ours_ratio(self) -> float | None:
        """One stream ÷ what the service does, by our own copy."""
        return ratio(self.plain_ours, self.runs, self.service_s)


def ratio(plain: Sequence[Record], runs: Sequence[Record], seconds: Callable[[Record], float]) -> float | None:
    by_repeat = {record.repeat: record.seconds for record in plain}
    pairs = [(by_repeat[run.repeat], seconds(run)) for run in runs if run.repeat in by_repeat]
    found = paired([a for a, _ in pairs], [b for _, b in pairs])
    return None if found is None else found.median


def size_of(label: str) -> float:
    """A label as a number, to sort by."""
    number, unit = label.split()
    return float(number) * (1000 if unit == "GB" else 1)


def sampled(cells: Cells) -> list[Sampled]:
    """By file, then by size of samples."""
    found = []
    for label, ways in cells.items():
        for name, runs in ways.items():
            if (match := re.fullmatch(r"samples of ([0-9.]+) MB", name)) and runs:
                plain = cells.get(row_of(runs[0].bytes), {})
                found.append(Sampled(label, float(match[1]), runs[0].bytes, runs, plain.get(GLOBUS, []),
                                     plain.get(OURS, [])))
    return sorted(found, key=lambda cell: (size_of(cell.label), cell.samples_mb))


def scale(cell: Sampled) -> float:
    """What the paper's file is divided by."""
    return size_of(cell.label) * MB / cell.bytes
