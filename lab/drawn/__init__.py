"""Random links, drawn from a seed: the default rule and others on each beside what a short sweep finds."""

from lab.drawn.page import page
from lab.drawn.shards import SHARDS

__all__ = ["SHARDS", "page"]
