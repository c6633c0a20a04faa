"""curl as hands use it: many files at once over HTTP, or one after the other."""

from lab.rivals.base import Contender
from lab.rivals.http import start_nginx, urls
from lab.runs.trial import Command, Trial


class CurlHttp(Contender):
    """So many files at once, each on a connection that is kept."""

    level = "c"
    trust = "none"
    packages = ("curl", "nginx-light")
    programs = ("curl", "nginx", "openssl")

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.name = f"curl, {at_once} at once"

    def prepare(self, trial: Trial) -> None:
        start_nginx(trial)
        lines = [f'url = "{url}"\noutput = "{trial.destination}/{path}"\n' for url, path in urls(trial)]
        (trial.scratch / "curl.list").write_text("".join(lines))

    def options(self) -> list[object]:
        return ["--parallel", "--parallel-immediate", "--parallel-max", self.at_once]

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.receiver, ["curl", "-sS", "--fail", *self.options(), "--create-dirs", "-K",
                                              trial.scratch / "curl.list"])]


class OneByOne(CurlHttp):
    """One file after the other, on one connection."""

    def __init__(self) -> None:
        super().__init__(1)
        self.name = "curl, one by one"

    def options(self) -> list[object]:
        return []
