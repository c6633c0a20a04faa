"""vsftpd in the sender's namespace, for anybody who logs in as nobody: FastBioDL's figure 6 is over FTP."""

from lab.links.link import SENDER_ADDRESS
from lab.runs.trial import Command, Trial

PORT = 2121
# Where its data connections are, so that they can be told from those that carry commands.
DATA = range(21_000, 22_000)
BASE = f"ftp://{SENDER_ADDRESS}:{PORT}"

CONFIGURATION = f"""\
listen=YES
listen_address={SENDER_ADDRESS}
listen_port={PORT}
background=NO
anonymous_enable=YES
local_enable=NO
write_enable=NO
anon_root={{root}}
secure_chroot_dir={{empty}}
run_as_launching_user=YES
allow_writeable_chroot=YES
seccomp_sandbox=NO
isolate=NO
isolate_network=NO
xferlog_enable=NO
pasv_min_port={DATA.start}
pasv_max_port={DATA.stop - 1}
"""


def start(trial: Trial) -> None:
    """Starts it and waits until it listens."""
    empty = trial.scratch / "empty"
    empty.mkdir(exist_ok=True)
    written = trial.scratch / "vsftpd.conf"
    written.write_text(CONFIGURATION.format(root=trial.source.root, empty=empty))
    trial.serve(Command(trial.link.sender, ["vsftpd", written]), PORT)
