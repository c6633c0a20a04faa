"""A page made anew of a part of what it shows: what was not measured again stays as the page before has it, and says so."""

import re
from dataclasses import replace
from pathlib import Path

from lab.pages.parts import BAR_HEADS
from lab.shard import Page

NOT_YET = "Not measured yet."
HEADING = re.compile(r"^## ", re.MULTILINE)
BUILD = re.compile(r"(tidegate \S+, build [^.;]+)\.")


def sections(text: str) -> tuple[str, dict[str, str]]:
    """What is before the first heading, and what stands under each."""
    head, *rest = HEADING.split(text)
    return head, {part.partition("\n")[0]: part.partition("\n")[2] for part in rest}


def bars(body: str) -> dict[str, str]:
    """The lines of the table of bars by what they are about."""
    heads = "| " + " | ".join(BAR_HEADS) + " |"
    lines = [line for line in body.splitlines() if line.startswith("| ") and line != heads and not line.startswith("| ---")]
    return {line.split(" | ")[0]: line for line in lines}


def with_bars(body: str, before: str) -> str:
    """The same, and the lines of the page before about what is not in it."""
    body = re.sub(rf"\n{re.escape(NOT_YET[:-1])}: .*\n", "", body)
    there = bars(body)
    more = [line for what, line in bars(before).items() if what not in there]
    if not more:
        return body
    head, rule, rest = body.partition("| --- | --- | --- | --- | --- |\n")
    return head + rule + "".join(f"{line}\n" for line in more) + rest if rule else before


def kept(page: Page, before: str) -> Page:
    """The page, with those sections of the one before that nothing new is known of."""
    head, new = sections(page.text)
    old_head, old = sections(before)
    stays = {name for name, body in old.items() if name not in new or NOT_YET in new[name]}
    if not stays:
        return page
    order = [*new]
    for at, name in enumerate(old):
        if name not in new:
            behind = [each for each in [*old][:at] if each in order]
            order.insert(order.index(behind[-1]) + 1 if behind else 0, name)
    build = BUILD.search(old_head)
    said = f" ({build[1]})" if build else ""
    listed = "; ".join(name.rstrip() for name in order if name in stays)
    head += f"As they were before, and not measured with the rest{said}: {listed}. What is dated otherwise there was put beside it.\n\n"
    # What is said of them all.
    head += "".join(f"{line}\n\n" for line in old_head.splitlines() if line.startswith("Measured before"))
    parts = [head]
    for name in order:
        body = old[name] if name in stays else with_bars(new[name], old.get(name, "")) if name == "Bars" else new[name]
        parts.append(f"## {name}\n{body}")
    return replace(page, text="".join(part if part.endswith("\n\n") else part.rstrip("\n") + "\n\n" for part in parts)
                   .rstrip("\n") + "\n")


def kept_from(page: Page, directory: Path) -> Page:
    """The same with the page that lies in a directory, if one does."""
    there = directory / f"{page.name}.md"
    return kept(page, there.read_text()) if there.is_file() else page
