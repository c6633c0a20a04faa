"""rsync's own daemon, clear text."""

from lab.links.link import SENDER_ADDRESS
from lab.rivals.base import Contender, write_lists
from lab.runs.trial import Command, Trial

PORT = 8873


class RsyncDaemon(Contender):
    """One process that takes everything, or as many as the link asks for, each with its share of the bytes."""

    level = "b"
    trust = "whole-file checksum, clear"
    programs = ("rsync",)

    def __init__(self, one: bool = False) -> None:
        self.one = one
        self.name = "rsync daemon" if one else "rsync daemon, two processes"

    def prepare(self, trial: Trial) -> None:
        if not self.one:
            write_lists(trial, 12 if trial.setting.needs_streams else 2)
        configuration = trial.scratch / "rsyncd.conf"
        configuration.write_text(f"uid = root\ngid = root\nuse chroot = no\nport = {PORT}\n"
                                 f"pid file = {trial.scratch}/rsyncd.pid\nlog file = {trial.scratch}/rsyncd.log\n"
                                 f"[source]\npath = {trial.source.root}\nread only = yes\n")
        (trial.scratch / "rsyncd.pid").unlink(missing_ok=True)
        trial.serve(Command(trial.link.sender, ["rsync", "--daemon", "--no-detach", "--config", configuration]), PORT)

    def commands(self, trial: Trial) -> list[Command]:
        lists = [[f"--files-from={path}"] for path in sorted(trial.scratch.glob("share*"))] or [[]]
        return [Command(trial.link.receiver,
                        ["rsync", "-a", "--whole-file", *those,
                         f"rsync://{SENDER_ADDRESS}:{PORT}/source/", f"{trial.destination}/"])
                for those in lists]
