"""Seven rows: links on which the best fixed numbers are known, and the default rule beside them in the same run."""

from lab.rows.cases import SHARDS
from lab.rows.page import page

__all__ = ["SHARDS", "page"]
