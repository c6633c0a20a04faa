"""Paths that were seen before: how soon the second copy over one is at its rate."""

from lab.remembered.cases import SHARDS
from lab.remembered.page import page

__all__ = ["SHARDS", "page"]
