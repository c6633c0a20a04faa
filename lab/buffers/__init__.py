"""A far link whose hosts give a connection small buffers: what streams carry there, and where buffers are as usual."""

from lab.buffers.cases import SHARDS
from lab.buffers.page import page

__all__ = ["SHARDS", "page"]
