"""The Python package: its copies beside the program's, and its file system beside those of fsspec and obstore."""

from lab.python.cases import SHARDS
from lab.python.page import page

__all__ = ["SHARDS", "page"]
