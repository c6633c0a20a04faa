"""The link of figure 1, each number of external streams a case of its own.

The external streams are there from the start; the measured transfer joins five seconds later, as in the paper.
"""

from dataclasses import replace

from lab.grid.case import Case
from lab.ground.places import REPOSITORY
from lab.links.scenario import Scenario, read

STREAMS = (1, 2, 4, 8, 16, 32, 64)
EXTERNAL = (0, 1, 2, 4, 8, 16, 32)
MOST = max(STREAMS)
JOINS_S = 5.0
# TCP takes some ten seconds to share with those that are there; a controller that adds one stream an epoch comes to 64
# after more than a minute.
SWEEP_S, CONTROL_S = 20.0, 90.0
# What a controller has reached is judged at its end.
LATE_S = 15.0
# The scenario has none; with one the bottleneck is the relay, whose queue overflows.
RTT_S = 0.02
LINK = REPOSITORY / "scenarios" / "aimd-figure-1.toml"


def link(external: int) -> Scenario:
    """The same path with that many external streams."""
    path = read(LINK)
    return replace(path, name=f"aimd-{external}", link=replace(path.link, rtt_s=RTT_S),
                   others=replace(path.others, streams=external))


def name(external: int) -> str:
    return f"external {external}"


def case(external: int, transfer_s: float) -> Case:
    title = f"1 Gbit/s, 20 ms, {external or 'no'} external stream{'' if external == 1 else 's'}"
    end = JOINS_S + transfer_s
    return Case(name(external), title, link(external), end, visits=((JOINS_S, end),))
