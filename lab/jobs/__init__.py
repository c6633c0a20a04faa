"""What a job of the service takes beside the same by hand, and a policy beside the default on the path it is trained for."""

from lab.jobs.cases import SHARDS
from lab.jobs.page import page

__all__ = ["SHARDS", "page"]
