"""Control rules on a link that needs ten streams: docs/results/controllers.md."""

from lab import shard
from lab.controllers import report
from lab.controllers.cells import NAME, cells
from lab.grid.figures import found_in
from lab.shard import Page, known

SHARDS = (shard.grid(NAME, "control rules, fixed numbers and the demo on a link that needs ten streams", NAME, 95,
                     cells),)


def page() -> Page:
    records = known(NAME)
    return report.made(found_in(records, NAME), [record for record in records if not record.ok])
