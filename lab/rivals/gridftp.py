"""GridFTP: globus-url-copy from its server, anonymous, clear text."""

from lab.rivals.base import Unchecked
from lab.runs.trial import Command, Trial

PORT = 2811
# From memory to memory: more than any run moves, so it is told to leave. It leaves an interrupt to its library, which
# may wait for the other end; the shell leaves at once and the run's control group ends the rest.
ENDLESS = 1 << 50
SHELL = 'trap "exit 0" INT; "$@" & wait $!'


def serve(trial: Trial, namespace: str, name: str) -> None:
    """Starts the server in that namespace, where it goes by that name."""
    trial.serve(Command(namespace, ["globus-gridftp-server", "-aa", "-anonymous-user", "root", "-allow-root", "-port", PORT,
                                    "-hostname", name, "-disable-usage-stats", "-no-detach", "-log-level", "ERROR"]), PORT)


class GlobusUrlCopy(Unchecked):
    name = "globus-url-copy -fast -pp"
    programs = ("globus-url-copy", "globus-gridftp-server")

    def prepare(self, trial: Trial) -> None:
        serve(trial, trial.link.sender, "sender")

    def options(self, trial: Trial) -> list[object]:
        return ["-fast", "-pp", *(["-cc", 8, "-p", 4] if trial.setting.needs_streams else ["-cc", 2])]

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.receiver,
                        ["globus-url-copy", "-r", "-cd", *self.options(trial),
                         f"ftp://sender:{PORT}{trial.source.root}/", f"file://{trial.destination}/"])]


class GlobusAt(GlobusUrlCopy):
    """At a setting somebody published: so many files at once, so many connections for each."""

    def __init__(self, concurrency: int, parallel: int = 1, quick: bool = False) -> None:
        self.flags: list[object] = ["-cc", concurrency, *(["-p", parallel] if parallel > 1 else []),
                                    *(["-fast", "-pp"] if quick else [])]
        self.name = "globus " + " ".join(map(str, self.flags))

    def options(self, trial: Trial) -> list[object]:
        return self.flags


class GlobusMemory(GlobusUrlCopy):
    """globus-url-copy with `-p N`, from /dev/zero to /dev/null."""

    moves_files = False

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self.name = f"globus-url-copy -p {streams}"

    def prepare(self, trial: Trial) -> None:
        serve(trial, trial.link.receiver, "receiver")

    def commands(self, trial: Trial) -> list[Command]:
        copy = ["globus-url-copy", "-fast", "-p", self.streams, "-len", ENDLESS, "file:///dev/zero",
                f"ftp://receiver:{PORT}/dev/null"]
        return [Command(trial.link.sender, ["sh", "-c", SHELL, "sh", *copy])]
