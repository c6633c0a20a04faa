"""Copies beside other tools: docs/results/copy.md."""

from lab.ground import places
from lab.ground.results import load
from lab.movers import report
from lab.movers.runner import Settings, run_all
from lab.rivals import contenders
from lab.rivals.base import LIMIT, Contender
from lab.runs.datasets import NAMES
from lab.runs.setting import LONG, OPEN, Setting
from lab.shard import Options, Page, Shard, named

REPEATS = 5
SEED = 1
LEVELS = ("a", "b", "c")


def wanted(setting: Setting, sets: str, only: tuple[str, ...]) -> tuple[str, list[Contender]]:
    """Words choose sets, levels of trust and tools; iperf3 and cp go with every level."""
    there = contenders(setting)
    chosen, *_ = named("set, level or tool", only, sets, LEVELS, (each.name for each in there))
    levels = [word for word in only if word in LEVELS]
    if set(only) - chosen:
        there = [each for each in there if each.name in only or (levels and each.level in (*levels, LIMIT))]
    return "".join(name for name in sets if name in chosen), there


def shard(name: str, setting: Setting, sets: str, minutes: int, title: str) -> Shard:
    def measure(options: Options) -> bool:
        chosen, there = wanted(setting, sets, options.only)
        return run_all(Settings(setting, chosen, options.repeats or REPEATS, SEED, places.RESULTS,
                                budget_min=options.budget_min), there)

    def counted() -> tuple[int, int]:
        able = {contender.name for contender in contenders(setting) if not contender.missing()}
        done = {record.key for record in load(places.RESULTS)
                if record.ok and record.scenario == setting.name and record.set in sets and record.contender in able
                and record.repeat < REPEATS and record.scale == 1.0}
        return len(done), REPEATS * len(sets) * len(able)

    return Shard(name, title, minutes, measure, counted)


SHARDS = (
    shard("movers", OPEN, "".join(NAMES), 90, "data sets A to D, no limit on the link, levels of trust a, b and c"),
    *(shard(f"movers-long-{name.lower()}", LONG, name, 90, f"data set {name} for half a minute, 2 Gbit/s, 200 Mbit/s a "
            "connection") for name in NAMES))


def page() -> Page:
    return Page("copy", report.write(load(places.RESULTS)), {})
