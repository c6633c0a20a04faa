"""The seven links, the fixed numbers that are tried on each, and who else."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.drawn.choice import CHOICE, USUAL_S
from lab.drawn.oracle import rule as fixed
from lab.grid.case import Case
from lab.grid.engine import Engine, Rule
from lab.grid.run import Cell
from lab.links.schema import LinkPath, Others, Scenario, Stage, Step
from lab.runs.datasets import MB, Plan
from lab.shard import grid, lasting

SHARD = "beyond-rows"
REPEATS = 3
OWN = CHOICE.own
# A trial of a few seconds shrinks every row alike.
SHARE = CHOICE.seconds / USUAL_S
STEADY_S, CHANGING_S = 40.0 * SHARE, 60.0 * SHARE
MBIT = 1_000_000
# More than the minute moves, so that every reader has a file to the end.
FILES = Plan("rows", 1, tuple((f"f{i:02}.bin", 5 * MB) for i in range(60)))
FULL = ("--share", "full")


@dataclass(frozen=True)
class Row:
    case: Case
    fixed: tuple[Rule, ...]
    rivals: tuple[Rule, ...] = ()
    # What the default rule is told besides.
    own: tuple[str, ...] = ()
    # What every rule is told: limits that are a worker's and that the program itself keeps.
    limits: tuple[str, ...] = ()
    least_mbit: float | None = None

    def cells(self) -> list[Cell]:
        own = Rule(OWN.name, OWN.optimizer, (*OWN.arguments, *self.own))
        rules = (own, *self.fixed, *self.rivals)
        return [Cell(self.case, Engine(rule, self.case, more=self.limits)) for rule in rules]


def path(name: str, title: str, rate_mbit: float, rtt_s: float, stream_mbit: float | None = None,
         timeline: tuple[Step, ...] = (), others: Others = Others()) -> Scenario:
    network = Stage(round((stream_mbit or rate_mbit) * MBIT))
    return Scenario(CHOICE.lasting(name), title, network, LinkPath(round(rate_mbit * MBIT), rtt_s), others=others,
                    timeline=timeline)


def case(scenario: Scenario, seconds: float = STEADY_S, data: Plan | None = None) -> Case:
    return Case(scenario.name, scenario.description, scenario, seconds, data)


def numbers(*counts: int) -> tuple[Rule, ...]:
    return tuple(fixed((count,)) for count in counts)


STEPS = (Step(CHANGING_S / 3, rate_bps=250 * MBIT), Step(CHANGING_S * 2 / 3, rate_bps=650 * MBIT))

ROWS: Sequence[Row] = (
    Row(case(path("row-1", "22 Mbit/s, 60 ms, files; a reader and a stream 0.7 Mbit/s, a writer 2.75 Mbit/s", 22, 0.06),
             CHANGING_S, FILES),
        (fixed((31, 31, 8)),), least_mbit=18.0,
        limits=("--limit-read", "0.7Mbit/s", "--limit-network", "0.7Mbit/s", "--limit-write", "2.75Mbit/s")),
    Row(case(path("row-2", "300 Mbit/s, 80 ms, no cap a stream", 300, 0.08)), numbers(1, 2, 4)),
    Row(case(path("row-3", "20 Mbit/s, 60 ms, no cap a stream", 20, 0.06)), numbers(1, 2)),
    Row(case(path("row-4", "700 Mbit/s, 35 ms, 45 Mbit/s a stream", 700, 0.035, 45)), numbers(16)),
    Row(case(path("row-5", "800 Mbit/s, 150 ms, 70 Mbit/s a stream", 800, 0.15, 70)), numbers(12, 16)),
    Row(case(path("row-6", "900, from 20 s on 250, from 40 s on 650 Mbit/s, 8 ms, 60 Mbit/s a stream", 900, 0.008, 60,
                  STEPS), CHANGING_S), numbers(16)),
    Row(case(path("row-7", "400 Mbit/s, 30 ms, beside six foreign streams, full share", 400, 0.03,
                  others=Others(streams=6))),
        numbers(1, 8, 16, 32), (*(Rule(name, name) for name in ("universal", "aimd", "fts3")),), own=FULL),
)


def cells() -> list[Cell]:
    return [cell for row in ROWS for cell in row.cells()]


SHARDS = (grid(SHARD, "seven links beside the best fixed numbers",
               lasting(REPEATS, [cell.case.seconds for cell in cells()]), cells, REPEATS),)
