"""What the AutoMDT paper published: figures 3 and 5, table I and training, to be shown beside ours."""

from dataclasses import dataclass

# Figure 3: 100 files of 1 GB. Seconds in all; workers reached and when.
FIGURE_3 = {"AutoMDT": (44.0, 20, 7.0), "Marlin": (74.0, 14, 62.0)}
# Table I: Mbit/s.
TABLE_I = {"large": {"Globus": 3652.2, "Marlin": 18066.8, "AutoMDT": 23988.0},
           "mixed": {"Globus": 2325.9, "Marlin": 13721.5, "AutoMDT": 16915.8}}
# Figure 3's files at table I's rate, since the rate of its link is not said.
LEAST_S = 100 * 8000 / TABLE_I["large"]["AutoMDT"]
TRAINING = "about 45 minutes (60 at worst), 20,150 episodes to converge (15,000–30,000)"
ONLINE = "120 more episodes online: the same speed, 1 % less concurrency"
SCALE = 25


@dataclass(frozen=True)
class Path:
    """One part of figure 5: what a worker of each stage moves (Mbit/s), the best numbers, and what was seen."""

    rates: tuple[int, int, int]
    best: tuple[int, int, int]
    automdt: str
    marlin: str
    sooner_s: int

    @property
    def slow(self) -> int:
        """The stage that needs the most workers."""
        return self.best.index(max(self.best))


FIGURE_5 = {"read": Path((80, 160, 200), (13, 7, 5), "13 within 6 s", "12 after 29 s", 68),
            "network": Path((205, 75, 195), (5, 14, 5), "15 within 3 s", "14 after 42 s", 15),
            "write": Path((200, 150, 70), (5, 7, 15), "–", "–", 17)}
