"""What a run of ours moved between two seconds, and with how many workers.

What arrives at the receiver's device tells it of runs from memory. A file has arrived when it is written: staging and
sockets hold seconds of a slow path, so there our own log of what writers moved counts, as far as it goes.
"""

from collections.abc import Callable

from lab.grid.figures import Run
from lab.runs.epochs import STAGES, Epoch, mean_between

NETWORK, WRITE = STAGES.index("network"), STAGES.index("write")


def goodput(run: Run, begin_s: float, end_s: float) -> float:
    """In bit/s."""
    if run.record.files:
        return logged(run, begin_s, end_s, lambda epoch: epoch.rates_bps[WRITE])
    return run.between(begin_s, end_s)


def workers(run: Run, begin_s: float, end_s: float) -> float:
    """Mean workers of all stages that do something: from memory to memory only streams do."""
    return logged(run, begin_s, end_s, lambda epoch: sum(epoch.workers) if run.record.files else epoch.streams)


def stages(run: Run, begin_s: float, end_s: float) -> list[float]:
    """The same, stage by stage."""
    there = range(len(STAGES)) if run.record.files else (NETWORK,)
    return [logged(run, begin_s, end_s, lambda epoch, i=i: epoch.workers[i]) for i in there]  # type: ignore[misc]


def logged(run: Run, begin_s: float, end_s: float, value: Callable[[Epoch], float]) -> float:
    """Mean over the part of it that the log tells of."""
    log = run.logs[0] if run.logs else []
    end_s = min(end_s, log[-1].end_s) if log else 0.0
    return mean_between(log, 0.0, begin_s, end_s, value) if end_s > begin_s else 0.0
