"""AIMD, figure 1: throughput by streams beside other streams, and what a controller makes of it."""

from lab.aimd.page import page
from lab.aimd.shards import SHARDS

__all__ = ["SHARDS", "page"]
