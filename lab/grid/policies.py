"""Policies trained for one path, once for each build of the program."""

from pathlib import Path

from lab.grid.engine import Rule
from lab.grid.kept import kept
from lab.ground import places
from lab.ground.shell import CommandFailed, run
from lab.links.scenario import Scenario, toml


def trained(rule: Rule, scenario: Scenario, build: str) -> Path | None:
    """The policy file for that path; None where the rule needs no training."""
    if not rule.recipe:
        return None
    # Rules that differ only in how they use a policy share it.
    name = f"{str(rule.recipe[-1]).replace(' ', '-')}-{scenario.name}"
    policy = kept(name, "safetensors", [build, toml(scenario), *map(str, rule.recipe)])
    if policy.exists():
        return policy
    described = policy.with_suffix(".toml")
    described.write_text(toml(scenario))
    print(f"training {policy.name}", flush=True)
    # Status 1: the criterion was not met; the best policy is kept all the same.
    said = run([places.tidegate_binary(), "train", "--scenario", described, *rule.recipe, "--output", policy, "--json"],
               fine=(0, 1))
    policy.with_suffix(".json").write_text(said)
    if not policy.exists():
        raise CommandFailed(f"{policy.name} was not written: {said}")
    return policy
