"""The contenders, in the order of the tables."""

from bench.rivals.base import LIMIT, Contender
from bench.rivals.gridftp import GlobusUrlCopy
from bench.rivals.http import Aria2, CurlTls, RcloneHttp, Wget2
from bench.rivals.limits import Cp, Iperf
from bench.rivals.rsyncd import RsyncDaemon
from bench.rivals.ssh import RcloneSftp, RsyncSsh
from bench.rivals.tidegate import Tidegate
from bench.rivals.xrootd import Xrdcp
from bench.scenario import Scenario


def limits(scenario: Scenario) -> list[Contender]:
    if scenario.needs_streams:
        return [Iperf(1), Iperf(4), Iperf(12)]
    return [Iperf(1), Iperf(2), Iperf(4), Cp()]


def contenders(scenario: Scenario) -> list[Contender]:
    return [
        *limits(scenario),
        Tidegate("a"), RcloneSftp(), RsyncSsh(), CurlTls(),
        Tidegate("b"), RsyncDaemon(),
        Tidegate("c"), Wget2(), RcloneHttp(), Xrdcp(), GlobusUrlCopy(), Aria2(),
    ]


def at_levels(levels: str, scenario: Scenario) -> list[Contender]:
    """Those of the levels, for example "bc", and always the limits."""
    return [contender for contender in contenders(scenario) if contender.level in (*levels, LIMIT)]
