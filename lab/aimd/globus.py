"""The paper's own tool from memory to memory: /dev/zero to /dev/null over so many TCP streams."""

from lab.rivals.gridftp import PORT, GlobusUrlCopy, serve
from lab.runs.trial import Command, Trial

# More than any run moves: it is told to leave.
ENDLESS = 1 << 50
# It leaves an interrupt to its library, which may wait for the other end; the shell leaves at once and the run's
# control group ends the rest.
SHELL = 'trap "exit 0" INT; "$@" & wait $!'


class GlobusMemory(GlobusUrlCopy):
    """globus-url-copy with `-p N`."""

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
