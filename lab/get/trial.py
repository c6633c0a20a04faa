"""What a downloader finds when it is its turn, and what all of them share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.get import ftp, server
from lab.get.cases import Case
from lab.get.sets import File
from lab.rivals.base import Unchecked
from lab.runs.trial import Command, Trial

# Families whose settings are searched by hand: every setting once, then the best of them.
FIXED, ARIA2, RCLONE, CURL = "fixed", "aria2", "rclone", "curl"
SEARCHED = (FIXED, ARIA2, RCLONE, CURL)
OURS, RULE, WGET2, ARCHIVE = "tidegate", "rule", "wget2", "archive"
# aria2's, which tidegate reads too.
ARIA2_ENTRY = "{url}\n  out={path}\n"


@dataclass(frozen=True)
class GetTrial(Trial):
    """A trial whose files are listed, with what they must be."""

    files: tuple[File, ...] = ()

    @property
    def case(self) -> Case:
        assert isinstance(self.setting, Case)
        return self.setting


class Fetcher(Unchecked):
    """A downloader at one setting. Subclasses say how it is called."""

    family: str
    # Which connections it is expected to use, to say how long a run will take; absent: as many as it takes.
    connections: float | None = None
    # Part of the set it fetches; less where the whole would take very long and show nothing else.
    share = 1.0
    # Whether it is repeated however it did in the first; settings that are searched are not.
    always = True
    # Whether no bar is about it: it is repeated less often.
    beside = False
    ports: tuple[int, ...] = (server.PORT,)
    # What the list it is given has of each file; nothing for those that ask the server.
    entry = ""

    def serve(self, trial: GetTrial) -> None:
        """Starts the server."""
        if trial.case.protocol == "ftp":
            ftp.start(trial)
        else:
            server.start(trial, trial.case.busy_above)

    def write(self, trial: GetTrial) -> None:
        """Writes the list it is given."""
        base = ftp.BASE if trial.case.protocol == "ftp" else server.BASE
        lines = (self.entry.format(url=f"{base}/{file.path}", path=file.path, md5=file.md5, to=trial.destination)
                 for file in trial.files)
        (trial.scratch / "list").write_text("".join(lines))

    def argv(self, trial: GetTrial) -> list[object]:
        raise NotImplementedError

    def environment(self, trial: GetTrial) -> Mapping[str, str]:
        # A home of its own: no settings of whoever runs this, nothing left for the next.
        return {"HOME": str(home(trial)), "TIDEGATE_STATE": str(trial.scratch / "client"), "LC_ALL": "C.UTF-8"}

    def prepare(self, trial: Trial) -> None:
        assert isinstance(trial, GetTrial)
        home(trial).mkdir(exist_ok=True)
        self.serve(trial)
        self.write(trial)

    def commands(self, trial: Trial) -> list[Command]:
        assert isinstance(trial, GetTrial)
        return [Command(trial.link.receiver, self.argv(trial), directory=trial.scratch,
                        environment=self.environment(trial))]

    def expected_mbit(self, case: Case) -> float:
        return case.goodput_mbit(self.connections or 1000)

    def fetched(self, trial: GetTrial) -> tuple[File, ...]:
        """What must be there afterwards."""
        return trial.files


def home(trial: Trial) -> Path:
    return trial.scratch / "home"
