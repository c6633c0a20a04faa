"""What the path looks like in a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Setting:
    name: str
    title: str
    rate_mbit: int | None = None
    per_connection_mbit: int | None = None
    # Said below the heading of the report.
    remark: str = ""
    # How many times over a set is sent by one command.
    times: Mapping[str, int] = field(default_factory=dict)

    @property
    def needs_streams(self) -> bool:
        """Whether one connection cannot fill the link, so that a hand must choose how many."""
        return self.per_connection_mbit is not None


OPEN = Setting("open", "no limit on the link", remark=(
    "These runs last a second or a few, so they end before a controller has looked often: what tidegate "
    "starts with matters. Half a minute at this speed would need 40 GB of memory at the destination, so the "
    "runs of 30 s and more are those on the limited link."))

LONG = Setting("long", "2 Gbit/s link, 200 Mbit/s a connection, sets repeated to last 30 s or more",
                remark=("Ten connections are needed to fill the link. The peers are told so by hand; tidegate "
                        "has to find out. The cap is a pacing rate per connection, kinder than a policer."),
                rate_mbit=2000, per_connection_mbit=200, times={"A": 4, "B": 3, "C": 3, "D": 3})

SETTINGS = {setting.name: setting for setting in (OPEN, LONG)}
