"""Far away: how soon one huge file fills the link, and what many small ones lose to the way."""

from lab.far.cases import SHARDS
from lab.far.page import page

__all__ = ["SHARDS", "page"]
