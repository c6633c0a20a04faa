"""Eight controllers on one link: each for itself, and within a budget that a service divides among them."""

from lab.eight.cases import SHARDS
from lab.eight.page import page

__all__ = ["SHARDS", "page"]
