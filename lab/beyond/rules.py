"""Which rules are tried on which links: all on some, the fewer on links that differ only in a number."""

from lab.beyond.cases import CROSS, DISKS, LINKS
from lab.grid.engine import Rule, fixed

DEFAULT = "auto"
FIXED = (1, 2, 4, 8, 12, 16, 24, 32)
# Where the run must be whole, since the link changes on the way, fewer numbers.
FEWER_FIXED = (1, 4, 8, 16, 32)


def plain(name: str) -> Rule:
    return Rule(name, name)


def learned(recipe: str) -> Rule:
    """Trained on the very path it then drives, by the paper's recipe, and answering as in the paper."""
    return Rule(recipe, recipe, recipe=recipe)


AUTO = plain(DEFAULT)
BACKGROUND = Rule("auto, background", DEFAULT, ("--share", "background"))
FULL = Rule("auto, full", DEFAULT, ("--share", "full"))
CLIMBING = tuple(map(plain, ("aimd", "fts3", "falcon", "gradient", "bayesian")))
COORDINATED = tuple(map(plain, ("marlin", "universal")))
LEARNED = tuple(map(learned, ("ldm", "discrete_rl")))
# Its recipe needs all three stages, and memory to memory there is but one.
AUTOMDT = learned("automdt")
ALL = (AUTO, BACKGROUND, *CLIMBING, *COORDINATED, *LEARNED)
FEWER = (AUTO, BACKGROUND, *CLIMBING)
# One of each kind of link sees all of them.
SEES_ALL = ("rtt-20", "loss-1-in-1000", "cross-traffic", "slow-reader", "slow-writer")
CHANGING = (AUTO, *map(plain, ("aimd", "fts3", "gradient", "universal")))
SHARING = (AUTO, *map(plain, ("aimd", "gradient", "universal")))
# Those that are not trained for a link; one and ten of our streams fill the links of harm alone.
HARMING = (AUTO, BACKGROUND, FULL, *CLIMBING, *COORDINATED, *map(fixed, (1, 10)))


def rules_for(link: str) -> tuple[Rule, ...]:
    assert link in LINKS
    rules = ALL if link in SEES_ALL else FEWER
    return (*rules, *([AUTOMDT] if link in DISKS else []), *([FULL] if link in CROSS else []))
