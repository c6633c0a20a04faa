"""Which control rules the program at hand knows: a table leaves out those it does not, and says so."""

import functools
import re
from collections.abc import Iterable, Sequence

from lab.grid.engine import Rule
from lab.ground import places
from lab.ground.shell import run


def words(help_text: str, option: str, end: str) -> frozenset[str]:
    """The words a program's help has between an option and what follows its description."""
    found = re.search(re.escape(option) + r"(.*?)" + end, help_text, re.DOTALL)
    return frozenset(re.findall(r"[a-z_0-9]+", found[1])) if found else frozenset()


@functools.cache
def offered_words(program: str) -> tuple[frozenset[str], frozenset[str]]:
    """Rules that drive transfers, and recipes for those that are trained."""
    copies = run([program, "copy", "--help"], check=False)
    trains = run([program, "train", "--help"], check=False)
    return words(copies, "--optimizer <NAME>", r"\n\s*--\w"), words(trains, "--recipe <NAME>", r"\n\s*--\w")


@functools.cache
def say_once(line: str) -> None:
    """What is to be measured is asked for more than once."""
    print(line)


def lacking(rule: Rule, rules: frozenset[str], recipes: frozenset[str]) -> str | None:
    """Why the program cannot play that rule; None if it can."""
    told = list(map(str, rule.recipe))
    recipe = told[told.index("--recipe") + 1] if "--recipe" in told else None
    if recipe is not None and recipe not in recipes:
        return f"the program has no recipe {recipe}"
    # What is trained goes by `policy`, or by the name of its recipe, which the help need not repeat.
    word = "policy" if recipe == rule.optimizer else rule.optimizer.removeprefix("coupled:").partition(":")[0]
    return None if word in rules else f"the program has no rule {word}"


def offered(wanted: Iterable[Rule]) -> list[Rule]:
    """Those the program knows. Without a program all of them: the rotation says that it is not built."""
    program = places.tidegate_binary()
    found: Sequence[Rule] = list(wanted)
    if not program.is_file():
        return list(found)
    known = offered_words(str(program))
    for rule in found:
        if reason := lacking(rule, *known):
            say_once(f"left out: {rule.name}: {reason}")
    return [rule for rule in found if not lacking(rule, *known)]
