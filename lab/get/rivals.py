"""aria2, rclone, curl and wget2: as they come, and at the settings a patient user would try."""

from collections.abc import Sequence

from lab.get.cases import BUSY_ABOVE, Case
from lab.get.server import BASE
from lab.get.trial import ARIA2, ARIA2_ENTRY, CURL, RCLONE, WGET2, Fetcher, GetTrial


class Aria2(Fetcher):
    family = ARIA2
    programs = ("aria2c", "nginx")
    entry = ARIA2_ENTRY

    def __init__(self, arguments: Sequence[str] = (), connections: float | None = None, always: bool = False) -> None:
        self.arguments = arguments
        self.name = " ".join(["aria2c", *arguments]) if arguments else "aria2c, default"
        self.connections = connections
        self.always = always or not arguments
        self.beside = not arguments

    def argv(self, trial: GetTrial) -> list[object]:
        # By hand one also leaves out the allocation of files, which costs time and gives nothing on tmpfs.
        tuned = ["--file-allocation=none", *self.arguments] if self.arguments else []
        return ["aria2c", "--no-conf", "-q", *tuned, "-d", trial.destination, "-i", trial.scratch / "list"]


class Rclone(Fetcher):
    """It lists the server's directory itself."""

    family = RCLONE
    programs = ("rclone", "nginx")

    arguments: Sequence[object] = ()

    def __init__(self, transfers: int | None = None, streams: int | None = None, always: bool = False) -> None:
        if transfers is None or streams is None:
            self.name, self.always = "rclone, default", True
            # Four files at once, four streams for those above 250 MiB.
            self.connections = 8.0
            self.beside = True
            return
        self.name = f"rclone {transfers} × {streams}"
        self.arguments = ("--transfers", transfers, "--checkers", transfers, "--multi-thread-streams", streams,
                          "--multi-thread-cutoff", "32M")
        self.connections = float(transfers * streams)
        self.always = always

    def argv(self, trial: GetTrial) -> list[object]:
        return ["rclone", "copy", ":http:", trial.destination, "--config", "/dev/null", "--http-url", f"{BASE}/",
                *self.arguments]


class Curl(Fetcher):
    family = CURL
    programs = ("curl", "nginx")
    entry = 'url = "{url}"\noutput = "{to}/{path}"\n'

    def __init__(self, at_once: int, always: bool = False) -> None:
        self.name = f"curl --parallel {at_once}"
        self.at_once = at_once
        self.connections = float(at_once)
        self.always = always
        self.beside = True

    def argv(self, trial: GetTrial) -> list[object]:
        return ["curl", "-sS", "--fail", "--parallel", "--parallel-max", self.at_once, "--create-dirs",
                "-K", trial.scratch / "list"]


class Wget2(Fetcher):
    family = WGET2
    beside = True
    programs = ("wget2", "nginx")
    entry = "{url}\n"

    def __init__(self, threads: int | None = None) -> None:
        self.name = f"wget2 --max-threads={threads}" if threads else "wget2, default"
        self.threads = threads
        self.connections = float(threads or 5)

    def argv(self, trial: GetTrial) -> list[object]:
        threads = [f"--max-threads={self.threads}"] if self.threads else []
        return ["wget2", "-q", "--no-config", "--no-xattr", "-x", "-nH", *threads, "-P", trial.destination,
                "-i", trial.scratch / "list"]


# Files at once and connections for each, as a patient user tries them: more than enough, the number that fills the link
# in two ways, and then the less likely.
TUNED = ((16, 16), (4, 3), (12, 1), (4, 4), (1, 12), (16, 1))
TUNED_BUSY = ((8, 1), (4, 2), (2, 4), (1, 8))


def aria2(files: int, split: int, least: str = "1M") -> Aria2:
    """So many files at once, each over so many connections, but none for a part smaller than that."""
    return Aria2((f"-j{files}", f"-x{split}", f"-s{split}", f"-k{least}"), float(files * split))


def rivals(case: Case) -> list[Fetcher]:
    """Theirs for that path. Where a number of connections is best or allowed, its factors are tried too."""
    if case.is_papers:
        return []
    if case.name == "small-rtt":
        sixteen = [Aria2(("-j16",), 16, always=True), Curl(16, always=True)]
        for judged in sixteen:
            judged.beside = False
        return [*sixteen, *(Aria2((f"-j{n}",), n) for n in (64, 128)), *(Curl(n) for n in (64, 128)), Rclone(),
                *(Rclone(n, 1) for n in (16, 64)), Wget2(16)]
    # aria2's own answer to the question how many files at once.
    adaptive = Aria2(("--optimize-concurrent-downloads=true", "-x16", "-s16", "-k1M"))
    pairs = TUNED_BUSY if case.busy_above is not None else TUNED
    return [Aria2(), adaptive, *(aria2(*pair) for pair in pairs), aria2(4, 4, "20M"),
            Rclone(), *(Rclone(*pair) for pair in pairs),
            Curl(BUSY_ABOVE if case.busy_above is not None else 12), Curl(16, always=True), Wget2(), Wget2(16)]
