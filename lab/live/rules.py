"""Which control rules the binary at hand offers, and the policies trained for a path."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.ground import places
from lab.ground.shell import CommandFailed, run

POLICY = "policy"
# Published recipes take minutes to train, the default takes seconds.
RECIPES = {POLICY: "fast", "policy-ldm": "ldm", "policy-automdt": "automdt"}


@dataclass(frozen=True)
class Rule:
    """A rule as the tables name it and as the command line is told."""

    name: str
    arguments: Sequence[object] = field(default=())
    recipe: str | None = None

    def argv(self, policy: Path | None) -> list[object]:
        if self.recipe is None:
            return ["--optimizer", self.name]
        return ["--optimizer", POLICY, "--policy", policy]


NAMES = ("auto", "model_based", "universal", "marlin", "falcon", "gradient", "aimd", "bayesian", POLICY)


def offered(help_text: str, commands: str) -> list[Rule]:
    """Those of ours that `copy --help` names. A policy needs `train` too, and comes in its recipes."""
    found = re.search(r"--optimizer <NAME>(.*?)\n\s*--\w", help_text, re.DOTALL)
    words = set(re.findall(r"[a-z_]+", found[1])) if found else set()
    can_train = re.search(r"^\s+train\s", commands, re.MULTILINE) is not None
    rules = [Rule(name) for name in NAMES if name in words and name != POLICY]
    if POLICY in words and can_train:
        rules += [Rule(name, recipe=recipe) for name, recipe in RECIPES.items()]
    return rules


def rules() -> list[Rule]:
    binary = places.tidegate_binary()
    return offered(run([binary, "copy", "--help"]), run([binary, "--help"]))


def trained(rule: Rule, scenario: str, name: str, build: str) -> Path | None:
    """The policy for this path, trained once for each build of the program."""
    if rule.recipe is None:
        return None
    directory = places.BUILD / "lab" / "policies" / build
    policy = directory / f"{rule.recipe}-{name}.safetensors"
    if not policy.exists():
        directory.mkdir(parents=True, exist_ok=True)
        described = directory / f"{name}.toml"
        described.write_text(scenario)
        print(f"training {policy.name}", flush=True)
        # Status 1: the criterion was not met; the best policy is kept all the same.
        said = run([places.tidegate_binary(), "train", "--scenario", described, "--recipe", rule.recipe,
                    "--output", policy, "--json"], check=False)
        (directory / f"{policy.stem}.json").write_text(said)
        if not policy.exists():
            raise CommandFailed(f"{policy.name} was not trained: {said or 'tidegate train said nothing'}")
    return policy
