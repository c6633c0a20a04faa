"""Control rules on live paths: docs/results/live.md."""

from lab.ground.places import tidegate_binary
from lab.ground.results import load
from lab.live import experiments, report
from lab.live.rules import rules
from lab.shard import Options, Page, Shard

REPEATS = 5


def measure(options: Options) -> bool:
    wanted = experiments.wanted(options.only, rules())
    return experiments.run_all(wanted, options.repeats or REPEATS, experiments.RESULTS)


def counted() -> tuple[int, int]:
    done = {record.key for record in load(experiments.RESULTS) if record.ok and record.repeat < REPEATS}
    return len(done), REPEATS * len(experiments.wanted(None, rules())) if tidegate_binary().is_file() else 0


def page() -> Page:
    return report.made(load(experiments.RESULTS))


SHARDS = (Shard("live", "AutoMDT's paths, paths that change, shared ones", "live", 120, measure, counted),)
