"""The shards of the service and the EOS paper, and their page."""

from functools import partial
from typing import Any

from lab.eos import adaptive, found, gridftp, iperf, jobs, kills, load, paths, predicted, queue, report
from lab.eos.task import Plan, counted, run_all
from lab.ground import places
from lab.pages.kept import kept_from
from lab.shard import Page, Shard


def shard(title: str, plan: Plan[Any]) -> Shard:
    minutes = max(1, round(plan.repeats * sum(task.expected_s for task in plan.tasks) / 60))
    return Shard(plan.shard, title, minutes, partial(run_all, plan), partial(counted, plan))


SHARDS: tuple[Shard, ...] = (
    shard("EOS figure 3: GridFTP samples and files on a fast path", gridftp.plan(gridftp.FIGURE_3)),
    shard("EOS figure 4: GridFTP samples and files on a slow path", gridftp.plan(gridftp.FIGURE_4)),
    shard("EOS figure 5: iperf3 samples of one to four seconds", iperf.PLAN),
    shard("EOS figures 6 to 8: 500 jobs through the scheduler", jobs.plan()),
    shard("each sampler's advice beside a sweep, and whether asking pays", paths.PLAN),
    shard("predictions judged live: each sampler on twelve links", predicted.PLAN),
    shard("GridFTP jobs under rules beside fixed numbers, near and far", adaptive.PLAN),
    shard("estimates from history under load", load.PLAN),
    shard("a queue of 100,000 jobs", queue.PLAN),
    shard("kill -9 of the service, 100 times", kills.PLAN),
)


def page() -> Page:
    """From whatever was measured here so far; the rest stays as the page has it."""
    return kept_from(report.page(found.read()), places.PAGES)
