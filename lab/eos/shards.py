"""The shards of the service and the EOS paper, and their page."""

from collections.abc import Callable
from typing import Any

from lab.eos import found, gridftp, iperf, jobs, kills, load, paths, queue, report
from lab.eos.gridftp import minutes
from lab.eos.task import Plan, counted, run_all
from lab.shard import Options, Page, Shard

PAGE = "eos"


def shard(title: str, plan: Callable[[Options], Plan[Any]]) -> Shard:
    full = plan(Options())

    def measure(options: Options) -> bool:
        return run_all(plan(options), options)

    return Shard(full.shard, title, PAGE, minutes(full), measure, lambda: counted(full))


SHARDS: tuple[Shard, ...] = (
    shard("EOS figure 3: GridFTP samples and files on a fast path",
          lambda options: gridftp.plan(gridftp.FIGURE_3, options)),
    shard("EOS figure 4: GridFTP samples and files on a slow path",
          lambda options: gridftp.plan(gridftp.FIGURE_4, options)),
    shard("EOS figure 5: iperf3 samples of one to four seconds", iperf.plan),
    shard("EOS figures 6 to 8: 500 jobs through the scheduler", jobs.plan),
    shard("each sampler's advice beside a sweep, and whether asking pays", paths.plan),
    shard("estimates from history under load", load.plan),
    shard("a queue of 100,000 jobs", queue.plan),
    shard("kill -9 of the service, 100 times", kills.plan),
)


def page(smoke: bool = False) -> Page:
    """From whatever was measured so far."""
    return report.page(found.read(smoke))
