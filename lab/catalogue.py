"""Everything the lab can measure and every page it writes, in the order of `run all`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab import aimd, automdt, beyond, buffers, drawn, eight, far, jobs, ldm, many, python, remembered, rows, ssh
from lab.controllers import cells as controllers
from lab.controllers.report import page as controllers_page
from lab.eos import shards as eos
from lab.fastbiodl.report import page as fastbiodl_page
from lab.fleet import cases as fleet
from lab.fleet.page import page as fleet_page
from lab.get import shards as get
from lab.movers import shards as movers
from lab.shard import Page, Shard, results


@dataclass(frozen=True)
class Chapter:
    """A page, and the shards it is made from: two pages may look at the same ones."""

    page: str
    shards: Sequence[Shard]
    made: Callable[[], Page]

    def measured(self) -> bool:
        """Whether there is anything to write about."""
        for shard in self.shards:
            done = shard.measured()
            if results(shard.name).exists() if done is None else done[0] > 0:
                return True
        return False


CHAPTERS = (
    Chapter("copy", movers.SHARDS, movers.page),
    Chapter("controllers", controllers.SHARDS, controllers_page),
    Chapter("aimd", aimd.SHARDS, aimd.page),
    Chapter("ldm", ldm.SHARDS, ldm.page),
    Chapter("automdt", automdt.SHARDS, automdt.page),
    Chapter("beyond", beyond.SHARDS, beyond.page),
    Chapter("beyond-random", drawn.SHARDS, drawn.page),
    Chapter("beyond-rows", rows.SHARDS, rows.page),
    Chapter("beyond-memory", remembered.SHARDS, remembered.page),
    Chapter("far", far.SHARDS, far.page),
    Chapter("buffers", buffers.SHARDS, buffers.page),
    Chapter("ssh", ssh.SHARDS, ssh.page),
    Chapter("many", many.SHARDS, many.page),
    Chapter("python", python.SHARDS, python.page),
    Chapter("get", get.SHARDS, get.page),
    Chapter("fastbiodl", get.SHARDS, fastbiodl_page),
    Chapter("eos", eos.SHARDS, eos.page),
    Chapter("jobs", jobs.SHARDS, jobs.page),
    Chapter("fleet-slurm", fleet.SHARDS, fleet_page),
    Chapter("fleet-controllers", eight.SHARDS, eight.page),
)


def shards() -> dict[str, Shard]:
    """All by name, each once."""
    return {shard.name: shard for chapter in CHAPTERS for shard in chapter.shards}


def pages() -> dict[str, str]:
    """The page of each shard by its name, the first where it has several."""
    return {shard.name: chapter.page for chapter in reversed(CHAPTERS) for shard in chapter.shards}


def asked(names: Sequence[str]) -> list[Shard]:
    """By name; the name of a page stands for all it is made from, and `all` for everything."""
    there = {shard.name: {shard.name, "all"} for shard in shards().values()}
    for chapter in CHAPTERS:
        for shard in chapter.shards:
            there[shard.name].add(chapter.page)
    if unknown := set(names).difference(*there.values()):
        raise SystemExit(f"nothing here is called {' or '.join(unknown)}; python3 -m lab list names what there is")
    return [shard for name, shard in shards().items() if there[name] & set(names)]


def chapters(names: Sequence[str]) -> list[Chapter]:
    """By the name of the page or of a shard; all without names."""
    there = [{chapter.page, *(shard.name for shard in chapter.shards)} for chapter in CHAPTERS]
    if unknown := set(names).difference(*there):
        raise SystemExit(f"no page or shard here is called {' or '.join(unknown)}; there are "
                         f"{', '.join(chapter.page for chapter in CHAPTERS)}")
    return [chapter for chapter, called in zip(CHAPTERS, there) if not names or called & set(names)]
