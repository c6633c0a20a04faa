"""A million files: a second copy that finds nothing to do, and a first one over 20 ms."""

from lab.many.cases import SHARDS
from lab.many.page import page

__all__ = ["SHARDS", "page"]
