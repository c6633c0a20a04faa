"""One link, what is to be moved over it and how long: the columns of a table."""

from dataclasses import dataclass
from functools import cached_property

from lab.links.scenario import Scenario
from lab.runs.datasets import Plan
from lab.runs.setting import Setting

# What is left of a link's rate for content: 1448 bytes of each 1514 in a frame at MTU 1500.
CONTENT = 1448 / 1514


@dataclass(frozen=True)
class Case:
    """A run ends when the data is there, or after `seconds`."""

    name: str
    title: str
    scenario: Scenario
    seconds: float
    # What is moved; from memory to memory without it, so that only the network is at work.
    data: Plan | None = None
    # How many times over the data is sent, by hard links.
    times: int = 1
    # Transfers that share the link: when each joins and leaves. One from first to last without it.
    visits: tuple[tuple[float, float], ...] = ()
    # Rivals are told to use many connections though one might fill the link: it is far, or the files are small.
    many: bool = False
    # What a stream moves there is not said: policies are trained for what exploring the link so long finds.
    explored_s: int | None = None
    # What the queue of the link holds, as seconds at its first rate; as its kind of link has it without.
    queue_s: float | None = None
    # Whether it is watched when the content of the one file is there.
    first_byte: bool = False

    @cached_property
    def setting(self) -> Setting:
        """What rivals are told by hand: whether one connection fills the link."""
        rate, stream = self.scenario.link_bps, self.scenario.stream_bps
        fills = stream is None or (rate is not None and stream >= rate)
        told = stream or rate if self.many or not fills else None
        return Setting(self.name, self.title, None if rate is None else round(rate / 1e6),
                       None if told is None else round(told / 1e6))

    @property
    def goodput_bps(self) -> float | None:
        """The most content the link carries."""
        return None if self.scenario.link_bps is None else self.scenario.link_bps * CONTENT

    @property
    def presence(self) -> tuple[tuple[float, float], ...]:
        return self.visits or ((0.0, self.seconds),)
