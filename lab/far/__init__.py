"""Far away: how soon one huge file fills the link, and what many small ones lose to the way."""

from lab.far.page import page
from lab.far.shards import SHARDS

__all__ = ["SHARDS", "page"]
