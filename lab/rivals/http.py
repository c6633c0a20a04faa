"""HTTP: curl (over TLS), wget2, aria2 and rclone from nginx, and rclone from its own WebDAV server."""

import os

from lab.links.link import SENDER_ADDRESS
from lab.rivals.base import Contender, shares
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


def urls(trial: Trial) -> list[tuple[str, str]]:
    """URL and relative path of every file."""
    base = f"http://{SENDER_ADDRESS}:{PORT}"
    return [(f"{base}/{path}", path) for path in shares(trial.source, 1)[0]]


class CurlTls(Contender):
    name = "curl https"
    level = "a"
    trust = "TLS 1.3, no check of the files"
    packages = ("curl", "nginx-light", "openssl")
    programs = ("curl", "nginx", "openssl")

    def prepare(self, trial: Trial) -> None:
        start_nginx(trial)
        base = f"https://{SENDER_ADDRESS}:{TLS_PORT}"
        lines = [f'url = "{base}/{path}"\noutput = "{trial.destination}/{path}"\n'
                 for path in shares(trial.source, 1)[0]]
        (trial.scratch / "curl.list").write_text("".join(lines))

    def commands(self, trial: Trial) -> list[Command]:
        at_once = 16 if trial.setting.needs_streams else 2
        return [Command(trial.link.receiver,
                        ["curl", "-sS", "--fail", "--parallel", "--parallel-max", at_once, "--create-dirs",
                         "--cacert", trial.scratch / "tls.crt", "-K", trial.scratch / "curl.list"])]


class Wget2(Contender):
    name = "wget2"
    level = "c"
    trust = "none"
    packages = ("wget2", "nginx-light")
    programs = ("wget2", "nginx", "openssl")

    def prepare(self, trial: Trial) -> None:
        start_nginx(trial)
        (trial.scratch / "wget2.list").write_text("".join(url + "\n" for url, _ in urls(trial)))

    def commands(self, trial: Trial) -> list[Command]:
        streams = ["--max-threads=16"] if trial.setting.needs_streams else []
        return [Command(trial.link.receiver,
                        ["wget2", "-q", "--no-config", "--no-xattr", "-x", "-nH", *streams, "-P", trial.destination,
                         "-i", trial.scratch / "wget2.list"])]


class Aria2(Contender):
    name = "aria2"
    level = "c"
    trust = "none"
    packages = ("aria2", "nginx-light")
    programs = ("aria2c", "nginx", "openssl")

    def prepare(self, trial: Trial) -> None:
        start_nginx(trial)
        lines = [f"{url}\n  out={path}\n" for url, path in urls(trial)]
        (trial.scratch / "aria2.list").write_text("".join(lines))

    def commands(self, trial: Trial) -> list[Command]:
        streams = ["-j16", "-x16", "-s16", "-k1M"] if trial.setting.needs_streams else ["-j2", "-s1"]
        return [Command(trial.link.receiver,
                        ["aria2c", "--no-conf", "-q", "--file-allocation=none", *streams,
                         "-d", trial.destination, "-i", trial.scratch / "aria2.list"])]


class RcloneHttp(Contender):
    name = "rclone http"
    level = "c"
    trust = "none"
    packages = ("rclone", "nginx-light")
    programs = ("rclone", "nginx", "openssl")

    def prepare(self, trial: Trial) -> None:
        start_nginx(trial)

    def commands(self, trial: Trial) -> list[Command]:
        return [rclone(trial, ":http:", "--http-url", f"http://{SENDER_ADDRESS}:{PORT}/")]


class RcloneWebdav(Contender):
    name = "rclone webdav"
    level = "c"
    trust = "none"
    packages = ("rclone",)
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
