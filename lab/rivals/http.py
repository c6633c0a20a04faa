"""HTTP: curl (over TLS), wget2, aria2 and rclone from nginx, and rclone from its own WebDAV server."""

import os

from lab.links.link import SENDER_ADDRESS
from lab.rivals.base import Unchecked, shares
from lab.ground.shell import run
from lab.runs import nginx
from lab.runs.trial import Command, Trial

PORT, TLS_PORT, WEBDAV_PORT = 8080, 8443, 8081

SERVER = """
        listen {address}:{port};
        listen {address}:{tls_port} ssl;
        ssl_certificate {scratch}/tls.crt;
        ssl_certificate_key {scratch}/tls.key;
        ssl_protocols TLSv1.3;
        root {root};
        autoindex on;
"""


def start_nginx(trial: Trial) -> None:
    """nginx in the sender's namespace, plain and TLS, serving the source."""
    run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", trial.scratch / "tls.key", "-out", trial.scratch / "tls.crt", "-days", 2,
         "-subj", "/CN=sender", "-addext", f"subjectAltName=IP:{SENDER_ADDRESS}"])
    server = SERVER.format(scratch=trial.scratch, root=trial.source.root, port=PORT, tls_port=TLS_PORT,
                           address=SENDER_ADDRESS)
    nginx.start(trial, nginx.configuration(trial.scratch, server), PORT)


def urls(trial: Trial, base: str = f"http://{SENDER_ADDRESS}:{PORT}") -> list[tuple[str, str]]:
    """URL and relative path of every file."""
    return [(f"{base}/{path}", path) for path in shares(trial.source, 1)[0]]


class FromNginx(Unchecked):
    """A client of nginx that is told of the files by a list."""

    base = f"http://{SENDER_ADDRESS}:{PORT}"
    # What the list has of each file; nothing for those that ask the server.
    entry = ""

    def prepare(self, trial: Trial) -> None:
        start_nginx(trial)
        entries = (self.entry.format(url=url, path=path, to=trial.destination) for url, path in urls(trial, self.base))
        (trial.scratch / "list").write_text("".join(entries))

    def argv(self, trial: Trial) -> list[object]:
        raise NotImplementedError

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.receiver, self.argv(trial))]


class Curl(FromNginx):
    programs = ("curl", "nginx", "openssl")
    entry = 'url = "{url}"\noutput = "{to}/{path}"\n'

    def options(self, trial: Trial) -> list[object]:
        raise NotImplementedError

    def argv(self, trial: Trial) -> list[object]:
        return ["curl", "-sS", "--fail", *self.options(trial), "-K", trial.scratch / "list"]


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


class CurlTls(Curl):
    name = "curl https"
    level = "a"
    trust = "TLS 1.3, no check of the files"
    base = f"https://{SENDER_ADDRESS}:{TLS_PORT}"

    def options(self, trial: Trial) -> list[object]:
        return ["--parallel", "--parallel-max", 16 if trial.setting.needs_streams else 2, "--create-dirs",
                "--cacert", trial.scratch / "tls.crt"]


class FromList(FromNginx):
    """Reads the list from a file."""

    command: tuple[str, ...]
    # How it is told where to write, and what suits a link that one connection fills and one that it does not.
    into: str
    few: tuple[str, ...] = ()
    many: tuple[str, ...]

    def argv(self, trial: Trial) -> list[object]:
        streams = self.many if trial.setting.needs_streams else self.few
        return [*self.command, *streams, self.into, trial.destination, "-i", trial.scratch / "list"]


class Wget2(FromList):
    name = "wget2"
    programs = ("wget2", "nginx", "openssl")
    entry = "{url}\n"
    command = ("wget2", "-q", "--no-config", "--no-xattr", "-x", "-nH")
    into = "-P"
    many = ("--max-threads=16",)


class Aria2(FromList):
    name = "aria2"
    programs = ("aria2c", "nginx", "openssl")
    entry = "{url}\n  out={path}\n"
    command = ("aria2c", "--no-conf", "-q", "--file-allocation=none")
    into = "-d"
    few = ("-j2", "-s1")
    many = ("-j16", "-x16", "-s16", "-k1M")


class RcloneHttp(FromNginx):
    name = "rclone http"
    programs = ("rclone", "nginx", "openssl")

    def commands(self, trial: Trial) -> list[Command]:
        return [rclone(trial, ":http:", "--http-url", f"{self.base}/")]


class RcloneWebdav(Unchecked):
    name = "rclone webdav"
    programs = ("rclone",)

    def prepare(self, trial: Trial) -> None:
        trial.serve(Command(trial.link.sender,
                            ["rclone", "serve", "webdav", trial.source.root, "--config", "/dev/null", "--read-only",
                             "--addr", f"{SENDER_ADDRESS}:{WEBDAV_PORT}"],
                            environment={"HOME": os.fspath(trial.scratch)}), WEBDAV_PORT)

    def commands(self, trial: Trial) -> list[Command]:
        return [rclone(trial, ":webdav:", "--webdav-url", f"http://{SENDER_ADDRESS}:{WEBDAV_PORT}/")]


def rclone(trial: Trial, *remote: str) -> Command:
    """A copy from a remote, at the quickest settings found here."""
    streams = ["--transfers", 4, "--checkers", 4, "--buffer-size", 0]
    if trial.setting.needs_streams:
        streams = ["--transfers", 16, "--checkers", 16, "--multi-thread-streams", 16, "--multi-thread-cutoff", "32M"]
    return Command(trial.link.receiver,
                   ["rclone", "copy", remote[0], trial.destination, "--config", "/dev/null", *remote[1:], *streams],
                   environment={"HOME": os.fspath(trial.scratch)})
