"""What people push with today, over ssh to a host where nothing else runs: Tidegate and its rivals."""

import os
import shlex

from lab.ground.places import tidegate_binary
from lab.links.link import RECEIVER_ADDRESS
from lab.rivals.base import Contender, write_lists
from lab.rivals.ssh import options, rclone, rsync, ssh, start_sshd
from lab.rivals.tidegate import Tidegate
from lab.runs.trial import Command, Trial

HOST = f"root@{RECEIVER_ADDRESS}"


def listen(trial: Trial) -> None:
    """sshd where data is to arrive; what a program remembers there is as fresh as the destination."""
    state = trial.scratch / "there"
    start_sshd(trial, trial.link.receiver, RECEIVER_ADDRESS, SetEnv=f"XDG_STATE_HOME={state}")


class TidegateSsh(Tidegate):
    """No tuning flag; ssh starts the other end."""

    programs = ("ssh", "ssh-keygen", "/usr/sbin/sshd")

    def __init__(self) -> None:
        super().__init__("a")
        self.name = "tidegate"

    def missing(self) -> str | None:
        return super().missing() or Contender.missing(self)

    def prepare(self, trial: Trial) -> None:
        listen(trial)

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender,
                        [tidegate_binary(), "copy", f"{trial.source.root}/", f"{HOST}:{self.landing(trial)}/",
                         "--ssh", ssh(trial), "--remote-path", tidegate_binary(), "--json",
                         "--state", trial.scratch / "client"])]


class Push(Contender):
    level = "a"

    def prepare(self, trial: Trial) -> None:
        listen(trial)


class RsyncPush(Push):
    """Each process with its share of the bytes."""

    trust = "ssh, whole-file checksum"
    programs = ("rsync", "ssh", "/usr/sbin/sshd")
    leaves_with = (20,)

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.name = "rsync" if processes == 1 else f"rsync, {processes} processes"

    def prepare(self, trial: Trial) -> None:
        super().prepare(trial)
        if self.processes > 1:
            write_lists(trial, self.processes)

    def commands(self, trial: Trial) -> list[Command]:
        return rsync(trial, trial.link.sender, f"{trial.source.root}/", f"{HOST}:{trial.destination}/")


class Scp(Push):
    name = "scp"
    trust = "ssh, no check of the files"
    programs = ("scp", "ssh", "/usr/sbin/sshd")
    leaves_with = (1, 255)

    def commands(self, trial: Trial) -> list[Command]:
        return [Command(trial.link.sender, ["scp", "-q", "-r", "-p", *options(trial), f"{trial.source.root}/.",
                                            f"{HOST}:{trial.destination}/"])]


class TarSsh(Push):
    name = "tar through ssh"
    trust = "ssh, no check of the files"
    programs = ("tar", "ssh", "/usr/sbin/sshd")

    def commands(self, trial: Trial) -> list[Command]:
        there = shlex.quote(os.fspath(trial.destination))
        pipe = (f"tar -C {shlex.quote(os.fspath(trial.source.root))} -cf - . | "
                f"{ssh(trial)} {HOST} tar -C {there} -xf -")
        return [Command(trial.link.sender, ["sh", "-c", pipe])]


class RcloneSftpPush(Push):
    name = "rclone sftp"
    trust = "ssh, checksum by a second reading"
    programs = ("rclone", "ssh-keygen", "/usr/sbin/sshd")
    leaves_with = (1,)

    def commands(self, trial: Trial) -> list[Command]:
        return rclone(trial, trial.link.sender, RECEIVER_ADDRESS, trial.source.root, f":sftp:{trial.destination}")


def pushers() -> tuple[Contender, ...]:
    return (TidegateSsh(), RsyncPush(1), RsyncPush(2), Scp(), TarSsh(), RcloneSftpPush())
