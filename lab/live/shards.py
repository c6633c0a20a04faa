"""Control rules on live paths: docs/results/live.md."""

from lab.ground.results import load
from lab.live import experiments, report
from lab.live.rules import rules
from lab.shard import Options, Page, Shard

REPEATS = 5


def measure(options: Options) -> bool:
    wanted = experiments.wanted(options.only, rules())
    return experiments.run_all(wanted, options.repeats or REPEATS, experiments.RESULTS)


def page() -> Page:
    return report.made(load(experiments.RESULTS))


SHARDS = (Shard("live", "AutoMDT's paths, paths that change, shared ones", "live", 120, measure),)
