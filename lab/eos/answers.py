"""What was predicted beside what came, by link and sampler."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.eos.found import Cells
from lab.ground.results import Record
from lab.ground.stats import percentile


@dataclass(frozen=True)
class Asked:
    """One link and sampler, over the repeats."""

    link: str
    sampler: str
    runs: Sequence[Record]

    @staticmethod
    def achieved(run: Record) -> float:
        return float(run.notes["carried_bps"][str(run.notes["streams"])])

    @property
    def errors(self) -> list[float]:
        """Of each answer: what it predicted by what came, less one."""
        return [run.notes["predicted_bps"] / came - 1 for run in self.runs if (came := self.achieved(run)) > 0]

    @property
    def best_samples(self) -> list[float]:
        return [max(bps for _, bps in run.notes["samples"]) for run in self.runs if run.notes["samples"]]

    @property
    def noise(self) -> float | None:
        """How far the best samples of the repeats lie apart, as a share; nothing to be said by one."""
        best = self.best_samples
        return (max(best) - min(best)) / min(best) if len(best) > 1 and min(best) > 0 else None

    @property
    def excess(self) -> float:
        """How far the highest answer lies above the best sample of its run, as a share."""
        return max((run.notes["predicted_bps"] / max(bps for _, bps in run.notes["samples"]) - 1
                    for run in self.runs if run.notes["samples"]), default=0.0)

    @property
    def beyond(self) -> bool | None:
        """Whether that is more than noise."""
        return None if self.noise is None else self.excess > self.noise

    @property
    def shares(self) -> list[float]:
        """What the advice carried by the best of it and the numbers beside it."""
        return [self.achieved(run) / best for run in self.runs if (best := max(run.notes["carried_bps"].values())) > 0]


def answers(cells: Cells) -> list[Asked]:
    return [Asked(link, sampler, runs) for link, ways in cells.items() for sampler, runs in ways.items()]


def off(those: Iterable[Asked], share: float) -> float:
    """What so large a share of all answers are not further off."""
    return percentile([abs(error) for each in those for error in each.errors], share)
