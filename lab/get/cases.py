"""The servers and paths that downloads are measured on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.grid.case import CONTENT
from lab.links.delayed import DelayedLink
from lab.links.link import Link
from lab.links.routed import RoutedLink
from lab.runs.setting import Setting

# At the optimum a run lasts so long; the bars are for runs of 30 s and more.
SECONDS = 33.0
CAP_MBIT = 100
LINK_MBIT = 12 * CAP_MBIT
BUSY_ABOVE = 8
RETRY_AFTER_S = 1
SETS = ("H10", "H6", "H43")
# At a distance the relay carries less, so that half of the rate has to do; H43 is here of the paper's size, 1.9 GB.
FAR_SETS, FAR_CAP_MBIT, FAR_FILL = ("H10", "H6", "H43-2GB"), 50, 12


@dataclass(frozen=True)
class Case(Setting):
    """A path, a server, and the sets that are fetched from it."""

    sets: Sequence[str] = ()
    # The server answers 429 to what goes beyond so many requests at once.
    busy_above: int | None = None
    rtt_ms: float = 0.0
    # By which the server speaks: http or ftp.
    protocol: str = "http"
    # How long a run lasts at the optimum; absent for sets of fixed size.
    seconds: float | None = SECONDS

    def link(self) -> Link:
        if self.rtt_ms:
            return DelayedLink(self.rtt_ms, self.rate_mbit or 0)
        return RoutedLink(self.rate_mbit) if self.rate_mbit else Link()

    @property
    def carries_mbit(self) -> float:
        """What the link carries of content."""
        return (self.rate_mbit or 10_000) * CONTENT

    def goodput_mbit(self, connections: float) -> float:
        """What so many connections can bring, by the caps alone."""
        if self.busy_above is not None:
            connections = min(connections, self.busy_above)
        if self.per_connection_mbit is None:
            return self.carries_mbit
        return min(self.carries_mbit, connections * self.per_connection_mbit)

    @property
    def possible_mbit(self) -> float:
        return self.goodput_mbit(1000)

    @property
    def is_fig6(self) -> bool:
        return self.name.startswith("fig6")

    @property
    def is_papers(self) -> bool:
        """Whether it is about FastBioDL's rules alone, without other downloaders."""
        return self.is_fig6 or self in FAR

    @property
    def figure(self) -> str:
        """The part of figure 6, whatever the server speaks."""
        return self.name.removesuffix(OVER_FTP)


OVER_FTP = "-ftp"


def over_ftp(case: Case) -> Case:
    """The same from an FTP server, as the paper has it."""
    return replace(case, name=f"{case.name}{OVER_FTP}", title=f"{case.title}, over FTP", protocol="ftp")


def far(rtt_ms: int) -> Case:
    """FastBioDL's tables 1 and 3 at a distance, H43 as large as the paper's."""
    link = FAR_FILL * FAR_CAP_MBIT
    return Case(f"rtt-{rtt_ms}", f"{link} Mbit/s link, {FAR_CAP_MBIT} Mbit/s a connection, {rtt_ms} ms", rate_mbit=link,
                per_connection_mbit=FAR_CAP_MBIT, sets=FAR_SETS, rtt_ms=float(rtt_ms))


def fig6(number: int, link_mbit: int, cap_mbit: int, paper: str) -> Case:
    return Case(f"fig6-{number}", f"FastBioDL figure 6, case {number}: link {link_mbit} Mbit/s, {cap_mbit} a connection "
                f"({link_mbit / cap_mbit:.1f} times)", rate_mbit=link_mbit, per_connection_mbit=cap_mbit, sets=("F40",),
                remark=f"The paper's: {paper}.")


CAPPED = Case("capped", f"{LINK_MBIT} Mbit/s link, {CAP_MBIT} Mbit/s a connection: twelve fill it", rate_mbit=LINK_MBIT,
              per_connection_mbit=CAP_MBIT, sets=SETS)
LINK_ONLY = Case("link-only", f"{LINK_MBIT} Mbit/s link, no cap on a connection: one fills it", rate_mbit=LINK_MBIT,
                 sets=SETS, remark="`tidegate` began with eight connections in these runs, tried whether more bring more, and was "
                 "down to the two that are enough after five seconds: its mean falls with the length of the run.")
BUSY = Case("busy", f"as capped, and the server answers 429 above {BUSY_ABOVE} requests at once", rate_mbit=LINK_MBIT,
            per_connection_mbit=CAP_MBIT, sets=SETS, busy_above=BUSY_ABOVE,
            remark=f"Each 429 says Retry-After: {RETRY_AFTER_S}. What is possible is {BUSY_ABOVE} connections' worth.")
SMALL = Case("small-rtt", "5,000 files of 100 KB, RTT 20 ms, 4 Gbit/s link", rate_mbit=4000, sets=("S5000",), rtt_ms=20.0,
             seconds=None)
FIG6 = (fig6(1, 2000, 100, "10 Gbit/s, 500 Mbit/s a thread, 44 % sooner than fixed 5 and 67 % sooner than fixed 3"),
        fig6(2, 1000, 140, "10 Gbit/s, 1,400 Mbit/s a thread, about 9.3 against 7.3 Gbit/s of fixed 5"),
        fig6(3, 2000, 140, "20 Gbit/s, 1,400 Mbit/s a thread, 1.3 and 2.1 times fixed 5 and 3"))
FIG6_FTP = tuple(map(over_ftp, FIG6))
FAR = tuple(map(far, (20, 60)))
ARCHIVE = Case("archive", f"the stand-in archive, {LINK_MBIT} Mbit/s link, {CAP_MBIT} Mbit/s a connection",
               rate_mbit=LINK_MBIT, per_connection_mbit=CAP_MBIT, sets=("runs",), seconds=None,
               remark="Downloaders at their defaults, which is one connection at a time: under a cap on each they lose by "
               "how they are made. Some fetch FASTQ and some SRA files, so only the rates compare.")

CASES = {case.name: case for case in (CAPPED, LINK_ONLY, BUSY, *FIG6, *FIG6_FTP, *FAR, SMALL, ARCHIVE)}
