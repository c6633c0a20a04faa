"""Over ssh to a host where nothing else runs: data sets A to D, and how soon the first byte is there."""

from lab.ssh.cases import SHARDS
from lab.ssh.page import page

__all__ = ["SHARDS", "page"]
