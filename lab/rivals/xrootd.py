"""XRootD's copy command from its server, with page checksums off: its quickest setting."""

import shutil
from pathlib import Path

from lab.links.link import SENDER_ADDRESS
from lab.rivals.base import Unchecked
from lab.runs.trial import Command, Trial

PORT = 1094
USER = "xrootd"  # the server refuses to run as root


class Xrdcp(Unchecked):
    name = "xrdcp --parallel 4"
    programs = ("xrdcp", "xrootd")

    def prepare(self, trial: Trial) -> None:
        work = trial.scratch / "xrootd"
        work.mkdir(exist_ok=True)
        configuration = work / "xrootd.cfg"
        configuration.write_text(f"all.export {trial.source.root}\nxrd.port {PORT}\n"
                                 f"all.adminpath {work}\nall.pidpath {work}\n")
        shutil.chown(work, USER)
        trial.serve(Command(trial.link.sender,
                            ["xrootd", "-c", configuration, "-R", USER, "-n", "bench", "-l", work / "log"],
                            directory=work), PORT)

    def commands(self, trial: Trial) -> list[Command]:
        streams = ["-S", 15] if trial.setting.needs_streams else []
        return [Command(trial.link.receiver,
                        ["xrdcp", "-s", "-r", "--parallel", 4, *streams,
                         f"root://{SENDER_ADDRESS}:{PORT}/{trial.source.root}/", f"{trial.destination}/"],
                        environment={"XRD_CPUSEPGWRTRD": "0"})]

    def landing(self, trial: Trial) -> Path:
        return trial.destination / trial.source.root.name
