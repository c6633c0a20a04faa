"""FastBioDL beside ours. It measures nothing of its own: its page is made from the shards of downloads."""

from lab.fastbiodl import report
from lab.get import rotation
from lab.get.shards import SHARDS
from lab.ground.results import load
from lab.shard import Page

__all__ = ["SHARDS", "page"]


def page() -> Page:
    return report.made([record for record in load(rotation.RESULTS) if record.scale == 1.0])
