"""What is measured, a link at a time."""

from functools import partial

from lab.far.cases import FAR, HUGE, NEAR, cells
from lab.shard import grid

PAGE = "far"
SHARDS = (grid("far-huge", "one huge file over 1 Gbit/s at 100 ms", PAGE, 12, partial(cells, HUGE)),
          grid("far-near", "6,000 small files at 20 ms", PAGE, 30, partial(cells, NEAR)),
          grid("far-small", "6,000 small files at 100 ms", PAGE, 35, partial(cells, FAR)))
