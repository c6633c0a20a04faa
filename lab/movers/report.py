"""The tables: medians with their range, CPU time, and each level of trust beside its peers."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab import install
from lab.ground.results import Record
from lab.pages.parts import BAR_HEADS
from lab.rivals.base import LIMIT, Contender
from lab.rivals import STREAMS, contenders
from lab.rivals.limits import Iperf
from lab.rivals.tidegate import Memory
from lab.runs.setting import OPEN, SETTINGS, Setting
from lab.ground.stats import Spread, spread

COMMAND = "python3 -m lab report copy"
IPERF = "iperf3"


@dataclass(frozen=True)
class Cell:
    """One contender on one set."""

    contender: str
    level: str
    trust: str
    rate: Spread
    cpu: Spread
    seconds: Spread


@dataclass(frozen=True)
class Goal:
    """What tidegate is to reach at a level, against the fastest of the named peers on each set."""

    level: str
    peers: tuple[str, ...]
    at_least: dict[str, float]
    mean_at_least: float | None = None


GOALS = (
    Goal("a", ("rclone sftp",), dict.fromkeys("ABCD", 1.5)),
    Goal("a", ("rsync over ssh, two processes",), dict.fromkeys("ABCD", 1.0)),
    Goal("b", ("rsync daemon, two processes",), {"A": 0.9, "B": 1.2, "C": 0.9, "D": 0.9}, mean_at_least=1.0),
    Goal("c", ("wget2", "rclone http", "xrdcp --parallel 4", "globus-url-copy -fast -pp"),
         {"A": 1.0, "B": 1.0, "C": 1.25, "D": 1.0}),
)

# Memory to memory, of what iperf3 reaches and uses with as many streams.
MEMORY_RATE, MEMORY_CPU = 0.8, 1.4

# A cell per (set, contender).
Cells = dict[tuple[str, str], Cell]


def cells(records: Iterable[Record]) -> Cells:
    """Groups the good runs; a run measured again replaces the earlier one."""
    latest = {record.key: record for record in records if record.ok}
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in latest.values():
        groups.setdefault((record.set, record.contender), []).append(record)
    return {key: Cell(key[1], runs[0].level, runs[0].trust,
                      spread([run.rate_bps / 1e9 for run in runs]),
                      spread([run.cpu_s_per_gb for run in runs]),
                      spread([run.seconds for run in runs]))
            for key, runs in groups.items()}


def limit(found: Cells, name: str) -> float | None:
    """The best median of iperf3 in the rotation of this set."""
    rates = [cell.rate.median for (which, contender), cell in found.items()
             if which == name and contender.startswith(IPERF)]
    return max(rates, default=None)


def best_peer(found: Cells, name: str, peers: Sequence[str]) -> Cell | None:
    present = [found[name, peer] for peer in peers if (name, peer) in found]
    return max(present, key=lambda cell: cell.rate.median, default=None)


def ratio(value: float, other: float | None) -> str:
    return "" if not other else f"{value / other:.2f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def set_table(found: Cells, name: str, order: Sequence[Contender]) -> str:
    """All contenders on one set."""
    top = limit(found, name)
    rows = []
    for contender in order:
        cell = found.get((name, contender.name))
        if cell is None:
            continue
        own = found.get((name, f"tidegate ({cell.level})"))
        ours = cell.contender.startswith("tidegate")
        beside = "" if own is None or ours else ratio(own.rate.median, cell.rate.median)
        rows.append([cell.contender, "" if cell.level == LIMIT else cell.level, cell.trust,
                     f"{cell.rate.median:.2f}", f"{cell.rate.low:.2f}–{cell.rate.high:.2f}",
                     f"{cell.cpu.median:.2f}", ratio(cell.rate.median, top), beside,
                     f"{cell.seconds.median:.1f}", str(cell.rate.count)])
    return table(["contender", "level", "trust", "median Gbit/s", "min–max", "CPU s/GB", "× iperf3",
                  "tidegate ÷ this", "s", "n"], rows)


def concurrency_lines(records: Iterable[Record]) -> str:
    """What tidegate chose, as it reports it: the mean over a run, the median over the runs."""
    chosen: dict[str, list[dict[str, float]]] = {}
    for record in records:
        if record.ok and "concurrency_mean" in record.notes:
            chosen.setdefault(record.contender, []).append(record.notes["concurrency_mean"])
    lines = []
    for name, means in sorted(chosen.items()):
        stages = [f"{stage} {spread([mean[stage] for mean in means]).median:.1f}" for stage in means[0]]
        lines.append(f"- {name}, mean concurrency: {', '.join(stages)}\n")
    return "".join(lines)


def goal_rows(found: Cells, goal: Goal) -> list[list[str]]:
    """One row a set, and the geometric mean where the goal has one."""
    rows, ratios = [], []
    for name, wanted in goal.at_least.items():
        own, peer = found.get((name, f"tidegate ({goal.level})")), best_peer(found, name, goal.peers)
        if own is None or peer is None:
            continue
        reached = own.rate.median / peer.rate.median
        ratios.append(reached)
        rows.append([f"{goal.level}, {name}: ÷ {peer.contender}, the fastest named peer", f"≥ {wanted:g}",
                     f"{reached:.2f}", f"{own.rate.count}, {peer.rate.count}", verdict(reached, wanted)])
    if goal.mean_at_least is not None and len(ratios) == len(goal.at_least):
        mean = statistics.geometric_mean(ratios)
        rows.append([f"{goal.level}, geometric mean: ÷ {goal.peers[0]}", f"≥ {goal.mean_at_least:g}", f"{mean:.2f}", "",
                     verdict(mean, goal.mean_at_least)])
    return rows


def memory_rows(found: Cells) -> list[list[str]]:
    """Memory to memory beside iperf3 of as many streams, over the rotations of all sets."""
    rows = []
    for streams in STREAMS:
        for what, wanted, value in (("rate", MEMORY_RATE, lambda cell: cell.rate),
                                    ("CPU s/GB", MEMORY_CPU, lambda cell: cell.cpu)):
            both = [(found.get((name, Memory(streams).name)), found.get((name, Iperf(streams).name))) for name in "ABCD"]
            pairs = [(value(own), value(theirs)) for own, theirs in both if own and theirs and own.rate.median > 0]
            if not pairs:
                continue
            reached = statistics.geometric_mean([own.median / theirs.median for own, theirs in pairs])
            met = reached >= wanted if what == "rate" else reached <= wanted
            rows.append([f"c, memory to memory, {streams} stream{'' if streams == 1 else 's'}: {what} ÷ iperf3's",
                         f"{'≥' if what == 'rate' else '≤'} {wanted:g}", f"{reached:.2f}",
                         str(sum(own.count for own, _ in pairs)), "yes" if met else "no"])
    return rows


def verdict(reached: float, wanted: float) -> str:
    return "yes" if reached >= wanted or math.isclose(reached, wanted) else "no"


def goals_table(found: Cells) -> str:
    rows = [*(row for goal in GOALS for row in goal_rows(found, goal)), *memory_rows(found)]
    if not rows:
        return "Tidegate has not been measured in this scenario.\n"
    return table(BAR_HEADS, rows)


def section(setting: Setting, records: Sequence[Record], order: Sequence[Contender]) -> str:
    found = cells(records)
    parts = [f"## {setting.title[0].upper()}{setting.title[1:]}\n", f"{setting.remark}\n"]
    if setting is OPEN:
        parts.append(goals_table(found))
    for name in sorted({record.set for record in records}):
        some = next(record for record in records if record.set == name)
        parts.append(f"### Set {name}: {some.files} files, {some.bytes / 1e9:.2f} GB, seed {some.seed}\n")
        parts.append(set_table(found, name, order))
        parts.append(concurrency_lines([record for record in records if record.set == name]))
    failed = [record for record in records if not record.ok]
    if failed:
        parts.append("Runs that failed and are not counted:\n")
        parts.append("".join(f"- {record.contender} on {record.set}, repeat {record.repeat}: {record.error}\n"
                             for record in failed))
    return "\n".join(parts)


def versions(records: Iterable[Record]) -> str:
    found = {(record.contender, record.version) for record in records if record.version}
    return "".join(f"- {name}: {version}\n" for name, version in sorted(found))


def absent(order: Iterable[Contender], why: Callable[[Contender], str | None]) -> str:
    lines = [f"- {contender.name}: {reason}\n" for contender in order if (reason := why(contender))]
    lines.append("- WDT: no Debian package, so not in the rotation\n")
    return "".join(lines)


def write(records: Sequence[Record]) -> str:
    """The whole page. Runs of a reduced size are left out."""
    records = [record for record in records if record.scale == 1.0]
    parts = ["# Copying beside other tools\n", f"Made by `{COMMAND}`; do not edit by hand.\n",
             f"{install.describe()}. Source and destination on tmpfs, the destination fresh for every run; two "
             "network namespaces on one veth pair, MTU 1500, TCP cubic. Each tool at its best known setting, tidegate "
             "without any tuning flag. Wall time from the start of the process to its exit. CPU time of both ends. "
             "Every first repeat was compared byte by byte with the source, the others by count and sizes. "
             "The order changes from one rotation to the next. Ratios are ratios of medians.\n",
             "Levels of trust: **a** encrypted and checked; **b** clear, each file checked; **c** clear, checked by "
             "block or not at all.\n"]
    if not records:
        parts.append("Nothing has been measured yet.\n")
    for setting in SETTINGS.values():
        own = [record for record in records if record.scenario == setting.name]
        if own:
            parts.append(section(setting, own, contenders(setting)))
    parts += ["## Versions\n", versions(records), "## Not measured\n",
              absent(contenders(OPEN), lambda contender: contender.missing())]
    return "\n".join(part for part in parts if part)
