"""Over ssh: rsync in several processes, rclone's sftp, and bbcp, whose data goes beside it."""

import os
from pathlib import Path

from lab.links.link import SENDER_ADDRESS
from lab.rivals.base import Contender, write_lists
from lab.ground.shell import run
from lab.runs.trial import Command, Trial

PORT = 2222
SEPARATION = Path("/run/sshd")


def start_sshd(trial: Trial) -> None:
    """An ssh server of its own: own keys, own port, in the sender's namespace."""
    for key in ("host", "user"):
        (trial.scratch / key).unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", trial.scratch / key])
    SEPARATION.mkdir(mode=0o755, exist_ok=True)
    settings = {
        "ListenAddress": f"{SENDER_ADDRESS}:{PORT}", "HostKey": trial.scratch / "host",
        "AuthorizedKeysFile": trial.scratch / "user.pub", "PidFile": trial.scratch / "sshd.pid",
        "PermitRootLogin": "yes", "StrictModes": "no", "UsePAM": "no", "MaxStartups": 100, "MaxSessions": 100,
        "Subsystem": "sftp internal-sftp",
    }
    configuration = trial.scratch / "sshd_config"
    configuration.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    trial.serve(Command(trial.link.sender, ["/usr/sbin/sshd", "-D", "-e", "-f", configuration]), PORT)


def ssh(trial: Trial) -> str:
    """How to reach that server, with the quickest cipher here."""
    return (f"ssh -p {PORT} -i {trial.scratch}/user -F none -o StrictHostKeyChecking=no -o LogLevel=ERROR"
            " -o UserKnownHostsFile=/dev/null -o Compression=no -c aes128-gcm@openssh.com")


class OverSsh(Contender):
    level = "a"

    def prepare(self, trial: Trial) -> None:
        start_sshd(trial)


class RsyncSsh(OverSsh):
    """rsync over ssh with the quickest cipher here, each process with its share of the bytes."""

    name = "rsync over ssh, two processes"
    trust = "ssh, whole-file checksum"
    programs = ("rsync", "ssh", "/usr/sbin/sshd")

    def processes(self, trial: Trial) -> int:
        return 12 if trial.setting.needs_streams else 2

    def prepare(self, trial: Trial) -> None:
        super().prepare(trial)
        write_lists(trial, self.processes(trial))

    def commands(self, trial: Trial) -> list[Command]:
        lists = sorted(trial.scratch.glob("share*"))
        return [Command(trial.link.receiver,
                        ["rsync", "-a", "--whole-file", f"--files-from={path}", "-e", ssh(trial),
                         f"root@{SENDER_ADDRESS}:{trial.source.root}/", f"{trial.destination}/"])
                for path in lists]


class RcloneSftp(OverSsh):
    name = "rclone sftp"
    trust = "ssh, checksum by a second reading"
    programs = ("rclone", "ssh-keygen", "/usr/sbin/sshd")

    def commands(self, trial: Trial) -> list[Command]:
        streams = ["--transfers", 16, "--checkers", 16] if trial.setting.needs_streams else []
        return [Command(trial.link.receiver,
                        ["rclone", "copy", f":sftp:{trial.source.root}", trial.destination,
                         "--config", "/dev/null", "--sftp-host", SENDER_ADDRESS, "--sftp-port", PORT,
                         "--sftp-user", "root", "--sftp-key-file", trial.scratch / "user", *streams],
                        environment={"HOME": os.fspath(trial.scratch)})]


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
