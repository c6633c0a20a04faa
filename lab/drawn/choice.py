"""Which links are drawn, for how long and under which rules they run: told by the environment, to measure a part."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from lab.grid.engine import Rule

PREFIX = "TIDEGATE_LAB_"
# The first is the one that is judged.
RULES = "auto universal fts3 aimd gradient"
USUAL_S = 30.0
# Of a run; what a short sweep takes where runs are as long as usual.
SWEEP_SHARE = 12.0 / USUAL_S


@dataclass(frozen=True)
class Choice:
    """The first `links` of a seed's endless row of links."""

    seed: int = 1
    links: int = 60
    seconds: float = USUAL_S
    rules: tuple[Rule, ...] = tuple(Rule(name, name) for name in RULES.split())

    @classmethod
    def told(cls, environment: Mapping[str, str] = os.environ) -> "Choice":
        def value(name: str, usual: object) -> str:
            return environment.get(PREFIX + name, str(usual))

        rules = tuple(Rule(name, name) for name in value("RULES", RULES).split())
        try:
            chosen = cls(int(value("SEED", cls.seed)), int(value("LINKS", cls.links)),
                         float(value("SECONDS", cls.seconds)), rules)
        except ValueError as error:
            raise SystemExit(f"{PREFIX}SEED, LINKS and SECONDS are numbers: {error}; see lab/README.md") from error
        if chosen.links < 1 or chosen.seconds <= 0 or not rules:
            raise SystemExit("no links, no seconds or no rules are asked for; see lab/README.md")
        return chosen

    @property
    def own(self) -> Rule:
        return self.rules[0]

    @property
    def sweep_s(self) -> float:
        return SWEEP_SHARE * self.seconds

    def name(self, index: int) -> str:
        """Of a link."""
        return self.lasting(f"seed{self.seed}-{index + 1:02}")

    def lasting(self, name: str) -> str:
        """Runs of another length are others."""
        return name if self.seconds == USUAL_S else f"{name}-{self.seconds:g}s"


CHOICE = Choice.told()
