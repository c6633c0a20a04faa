"""Beyond the papers: the default rule against all others on links none of them tried."""

from lab.beyond.page import page
from lab.beyond.shards import SHARDS

__all__ = ["SHARDS", "page"]
