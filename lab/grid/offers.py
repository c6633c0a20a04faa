"""Which control rules the program at hand knows: a table leaves out those it does not, and says so."""

import functools
from collections.abc import Iterable

from lab.grid.engine import Rule
from lab.ground import places
from lab.ground.described import Described, described, lacking


@functools.cache
def say_once(line: str) -> None:
    """What is to be measured is asked for more than once."""
    print(line)


def unknown(rule: Rule, known: Described) -> str | None:
    """Why the program cannot play that rule; None if it can."""
    told = list(map(str, rule.recipe))
    recipe = told[told.index("--recipe") + 1] if "--recipe" in told else None
    if recipe is not None and recipe not in known.recipes:
        return f"the program has no recipe {recipe}"
    word = rule.optimizer.removeprefix("coupled:").partition(":")[0]
    return None if word in known.rules else f"the program has no rule {word}"


def offered(wanted: Iterable[Rule]) -> list[Rule]:
    """Those the program knows. Without one that can be asked all of them: the rotation says what is the matter."""
    found, program = list(wanted), places.tidegate_binary()
    if lacking(program):
        return found
    reasons = {rule.name: unknown(rule, described(program)) for rule in found}
    for name, reason in reasons.items():
        if reason:
            say_once(f"left out: {name}: {reason}")
    return [rule for rule in found if not reasons[rule.name]]
