"""The contenders, in the order of the tables."""

import os
from pathlib import Path

from lab.rivals.base import Contender
from lab.rivals.gridftp import GlobusUrlCopy
from lab.rivals.http import Aria2, CurlTls, RcloneHttp, RcloneWebdav, Wget2
from lab.rivals.limits import Cp, Iperf
from lab.rivals.rsyncd import RsyncDaemon
from lab.rivals.ssh import Bbcp, RcloneSftp, RsyncSsh
from lab.rivals.tidegate import Earlier, Memory, Tidegate
from lab.rivals.xrootd import Xrdcp
from lab.runs.setting import Setting

# As many from memory to memory, for iperf3 and for us.
STREAMS = (1, 2, 4)


def limits(setting: Setting) -> list[Contender]:
    if setting.needs_streams:
        return [Iperf(1), Iperf(4), Iperf(12)]
    return [*(mover for streams in STREAMS for mover in (Iperf(streams), Memory(streams))), Cp()]


def earlier() -> list[Contender]:
    """Builds of before that TIDEGATE_LAB_EARLIER names, with a colon between them."""
    named = filter(None, os.environ.get("TIDEGATE_LAB_EARLIER", "").split(":"))
    return [Earlier(level, Path(path)) for path in named for level in ("b", "c")]


def contenders(setting: Setting) -> list[Contender]:
    return [
        *earlier(),
        *limits(setting),
        Tidegate("a"), RcloneSftp(), RsyncSsh(), CurlTls(),
        Tidegate("b"), RsyncDaemon(),
        Tidegate("c"), Wget2(), RcloneHttp(), RcloneWebdav(), Xrdcp(), GlobusUrlCopy(), Aria2(), Bbcp(),
    ]
