"""Over ssh, from the sender's namespace: rsync in several processes, rclone's sftp, and bbcp, whose data goes beside it."""

import os
from pathlib import Path

from lab.links.link import SENDER_ADDRESS
from lab.rivals.base import Contender, write_lists
from lab.ground.shell import run
from lab.runs.trial import Command, Trial

PORT = 2222
SEPARATION = Path("/run/sshd")


def start_sshd(trial: Trial, namespace: str, address: str, **more: object) -> None:
    """An ssh server of its own: own keys, own port, at one end of the path."""
    for key in ("host", "user"):
        (trial.scratch / key).unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", trial.scratch / key])
    SEPARATION.mkdir(mode=0o755, exist_ok=True)
    settings = {
        "ListenAddress": f"{address}:{PORT}", "HostKey": trial.scratch / "host",
        "AuthorizedKeysFile": trial.scratch / "user.pub", "PidFile": trial.scratch / "sshd.pid",
        "PermitRootLogin": "yes", "StrictModes": "no", "UsePAM": "no", "MaxStartups": 100, "MaxSessions": 100,
        "Subsystem": "sftp internal-sftp", **more,
    }
    configuration = trial.scratch / "sshd_config"
    configuration.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    trial.serve(Command(namespace, ["/usr/sbin/sshd", "-D", "-e", "-f", configuration]), PORT)


def options(trial: Trial) -> list[str]:
    """How to reach that server, with the quickest cipher here: for ssh and scp."""
    settings = {"Port": PORT, "IdentityFile": trial.scratch / "user", "StrictHostKeyChecking": "no", "LogLevel": "ERROR",
                "UserKnownHostsFile": "/dev/null", "Compression": "no", "Ciphers": "aes128-gcm@openssh.com"}
    return ["-F", "none", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]


def ssh(trial: Trial) -> str:
    return " ".join(["ssh", *options(trial)])


def rsync(trial: Trial, at: str, source: str, destination: str) -> list[Command]:
    """A process for each list of files, or one for all of them; with the quickest cipher here."""
    lists = [[f"--files-from={path}"] for path in sorted(trial.scratch.glob("share*"))] or [[]]
    return [Command(at, ["rsync", "-a", "--whole-file", *those, "-e", ssh(trial), source, destination])
            for those in lists]


def rclone(trial: Trial, at: str, server: str, source: object, destination: object) -> list[Command]:
    """As many files at once as serve it best: its own number near, more far away."""
    many = ["--transfers", 16, "--checkers", 16] if trial.setting.needs_streams else []
    return [Command(at, ["rclone", "copy", source, destination, "--config", "/dev/null", "--sftp-host", server,
                         "--sftp-port", PORT, "--sftp-user", "root", "--sftp-key-file", trial.scratch / "user", *many],
                    environment={"HOME": os.fspath(trial.scratch)})]


class OverSsh(Contender):
    level = "a"

    def prepare(self, trial: Trial) -> None:
        start_sshd(trial, trial.link.sender, SENDER_ADDRESS)


class RsyncSsh(OverSsh):
    """Each process with its share of the bytes."""

    name = "rsync over ssh, two processes"
    trust = "ssh, whole-file checksum"
    programs = ("rsync", "ssh", "/usr/sbin/sshd")

    def processes(self, trial: Trial) -> int:
        return 12 if trial.setting.needs_streams else 2

    def prepare(self, trial: Trial) -> None:
        super().prepare(trial)
        write_lists(trial, self.processes(trial))

    def commands(self, trial: Trial) -> list[Command]:
        return rsync(trial, trial.link.receiver, f"root@{SENDER_ADDRESS}:{trial.source.root}/", f"{trial.destination}/")


class RcloneSftp(OverSsh):
    name = "rclone sftp"
    trust = "ssh, checksum by a second reading"
    programs = ("rclone", "ssh-keygen", "/usr/sbin/sshd")

    def commands(self, trial: Trial) -> list[Command]:
        return rclone(trial, trial.link.receiver, SENDER_ADDRESS, f":sftp:{trial.source.root}", trial.destination)


class Bbcp(OverSsh):
    """No registry has it; whoever builds it from its source and puts it on the path has it measured too."""

    name = "bbcp"
    level = "c"
    trust = "none"
    programs = ("bbcp", "ssh-keygen", "/usr/sbin/sshd")

    def version(self) -> str:
        return run(["bbcp", "-#"], check=False).strip()

    def commands(self, trial: Trial) -> list[Command]:
        streams = 12 if trial.setting.needs_streams else 2
        return [Command(trial.link.receiver,
                        ["bbcp", "-r", "-s", streams, "-w", "8m", "-S", f"{ssh(trial)} %H bbcp",
                         f"root@{SENDER_ADDRESS}:{trial.source.root}/", f"{trial.destination}/"])]
