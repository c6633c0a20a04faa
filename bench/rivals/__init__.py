"""The contenders, in the order of the tables."""

from bench.rivals.base import LIMIT, Contender
from bench.rivals.gridftp import GlobusUrlCopy
from bench.rivals.http import Aria2, CurlTls, RcloneHttp, Wget2
from bench.rivals.limits import Cp, Iperf
from bench.rivals.rsyncd import RsyncDaemon
from bench.rivals.ssh import RcloneSftp, RsyncSsh
from bench.rivals.tidegate import Tidegate
from bench.rivals.xrootd import Xrdcp


def contenders() -> list[Contender]:
    return [
        Iperf(1), Iperf(2), Iperf(4), Cp(),
        Tidegate("a"), RcloneSftp(), RsyncSsh(), CurlTls(),
        Tidegate("b"), RsyncDaemon(),
        Tidegate("c"), Wget2(), RcloneHttp(), Xrdcp(), GlobusUrlCopy(), Aria2(),
    ]


def at_levels(levels: str) -> list[Contender]:
    """Those of the levels, for example "bc", and always the limits."""
    return [contender for contender in contenders() if contender.level in (*levels, LIMIT)]
