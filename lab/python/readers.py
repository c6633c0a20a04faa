"""Who copies, and who reads: the package and the libraries beside it, each in an interpreter of its own."""

import json
from collections.abc import Sequence
from pathlib import Path

from lab.ground.places import tidegate_binary
from lab.links.link import SENDER_ADDRESS
from lab.python import client, venv
from lab.rivals.base import Contender
from lab.rivals.http import PORT, start_nginx
from lab.rivals.tidegate import Tidegate
from lab.runs.trial import Command, Measured, Trial

ENDPOINT_PORT = 7000
# The file that is read, and in what directory: to S3 that is a bucket.
FILE = "data/file.bin"


def told_seconds(trial: Trial) -> float:
    """What the client says that its task took."""
    return float(json.loads((trial.scratch / "client0.out").read_text())["seconds"])


class InPython(Contender):
    """One in an interpreter of its own."""

    backend: str
    package: str

    def missing(self) -> str | None:
        return super().missing() or venv.missing(self.package)

    def version(self) -> str:
        return f"{self.package} {venv.version(self.package)}"

    def argv(self, *words: object) -> list[object]:
        return [venv.PYTHON, client.__file__, self.backend, *words]


class PythonCopy(InPython):
    """`tidegate.copy`, to the endpoint that the program copies to. Its client says how long it took: the interpreter's start
    is none of its business."""

    by_itself = True
    name, level, trust = "tidegate.copy", "a", Tidegate("a").trust
    backend = package = "tidegate"

    def __init__(self) -> None:
        self.program = Tidegate("a")

    def prepare(self, trial: Trial) -> None:
        self.program.prepare(trial)

    def landing(self, trial: Trial) -> Path:
        return self.program.landing(trial)

    def commands(self, trial: Trial) -> list[Command]:
        target = self.program.ticket(trial).rstrip("/") + "/copied/"
        return [Command(trial.link.sender, self.argv("copy", target, f"{trial.source.root}/", "-"),
                        environment={"TIDEGATE_STATE": str(trial.scratch / "client")})]

    def rate_bps(self, trial: Trial, measured: Measured) -> float:
        return trial.source.size * 8 / told_seconds(trial)


class Reader(InPython):
    """Reads from the sender into the memory of the receiver, and writes down what it has read."""

    def address(self, trial: Trial) -> str:
        raise NotImplementedError

    def reads(self, trial: Trial, task: str, *numbers: object) -> list[Command]:
        (self.landing(trial) / FILE).parent.mkdir(parents=True, exist_ok=True)
        words = self.argv(task, self.address(trial), FILE, self.landing(trial) / FILE, *numbers)
        return [Command(trial.link.receiver, words, environment={"TIDEGATE_STATE": str(trial.scratch / "client")})]

    def commands(self, trial: Trial) -> list[Command]:
        return self.reads(trial, "whole")


class OfTidegate(Reader):
    """The package's file system, over TLS from an endpoint."""

    name, level, trust = "tidegate (fsspec)", "a", "TLS 1.3"
    backend = package = "tidegate"

    def prepare(self, trial: Trial) -> None:
        endpoint = [tidegate_binary(), "endpoint", "--root", trial.source.root, "--listen",
                    f"{SENDER_ADDRESS}:{ENDPOINT_PORT}", "--state", trial.scratch / "endpoint"]
        trial.serve(Command(trial.link.sender, endpoint), ENDPOINT_PORT)

    def address(self, trial: Trial) -> str:
        return trial.first_line("the endpoint printed no ticket")


class FromNginx(Reader):
    """A library that reads plain HTTP from nginx; in `parts` where a hand has told it to read so many at once."""

    level, trust = "c", "none"
    programs = ("nginx", "openssl")

    def __init__(self, library: str, package: str, name: str, in_parts: bool = False) -> None:
        self.backend, self.package = f"{library}-parts" if in_parts else library, package
        self.name = f"{name}, {client.PARTS} parts at once" if in_parts else name

    def prepare(self, trial: Trial) -> None:
        start_nginx(trial)

    def address(self, trial: Trial) -> str:
        return f"http://{SENDER_ADDRESS}:{PORT}"


OURS = OfTidegate()
LIBRARIES = (("http", "aiohttp", "fsspec http"), ("s3fs", "s3fs", "s3fs"), ("obstore", "obstore", "obstore"))
RANGES: Sequence[Reader] = (OURS, *(FromNginx(*each) for each in LIBRARIES))
WHOLE: Sequence[Reader] = (*RANGES, *(FromNginx(*each, in_parts=True) for each in LIBRARIES))
