"""curl as hands use it: many files at once over HTTP, or one after the other."""

from lab.rivals.http import Curl
from lab.runs.trial import Trial


class CurlHttp(Curl):
    """So many files at once, each on a connection that is kept."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.name = f"curl, {at_once} at once"

    def options(self, trial: Trial) -> list[object]:
        return ["--parallel", "--parallel-immediate", "--parallel-max", self.at_once, "--create-dirs"]


class OneByOne(Curl):
    """One file after the other, on one connection."""

    name = "curl, one by one"

    def options(self, trial: Trial) -> list[object]:
        return ["--create-dirs"]
