"""All pages of results as one HTML file that needs nothing beside it, with every bar of every page at its top."""

import base64
import contextlib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any

from lab.install import describe
from lab.pages.parts import BAR_HEADS
from lab.pages.style import STYLE

DEBIAN = "/usr/lib/python3/dist-packages"
PICTURE = re.compile(r'<img alt="([^"]*)" src="([^"/:]+\.svg)" ?/?>')
LINK = re.compile(r'<a href="([^"#:]+)(#[^"]*)?">')
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
# A row of bars, and its verdict.
MET, MISSED = "yes", "no"


class Missing(Exception):
    """What the report needs and is not there."""


@dataclass(frozen=True)
class Section:
    """One page: its file's name, its title, its headings below that, and its body."""

    name: str
    title: str
    headings: tuple[tuple[str, str], ...]
    body: str
    bars: tuple[tuple[str, ...], ...]


def cells(line: str) -> tuple[str, ...]:
    """Of a row of a Markdown table; a bar within a cell is written \\|."""
    return tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")))


def bars(markdown: str) -> list[tuple[str, ...]]:
    """The rows of every table that has the heads of bars."""
    found: list[tuple[str, ...]] = []
    inside = False
    for line in markdown.splitlines():
        if not line.startswith("|"):
            inside = False
        elif cells(line) == BAR_HEADS:
            inside = True
        elif inside and not set(line) <= set("|-: "):
            found.append(cells(line))
    return [row for row in found if len(row) == len(BAR_HEADS)]


def verdict(row: Sequence[str]) -> str:
    return row[-1].strip("*")


def markdown() -> Any:
    """Debian's package lies where another interpreter than Debian's does not look; it is plain Python."""
    for directory in (None, DEBIAN):
        if directory is not None:
            sys.path.append(directory)
        with contextlib.suppress(ImportError):
            return importlib.import_module("markdown")
    raise Missing("python3-markdown is not installed, so there is no HTML report; run: python3 -m lab install")


def converter(name: str) -> Any:
    return markdown().Markdown(extensions=["tables", "fenced_code", "sane_lists", "toc"], extension_configs={
        "toc": {"slugify": lambda text, mark: f"{name}-{re.sub('[^a-z0-9]+', mark, text.lower()).strip(mark)}"}})


def listed(text: str) -> str:
    """A list that follows a line of text is a list in the pages of GitHub; here it needs an empty line."""
    return re.sub(r"(?m)^(?!- |\s|\|)(.+)\n(?=- )", r"\1\n\n", text)


def section(path: Path, there: Sequence[str], outside: str) -> Section:
    """`there` are the pages that are part of the report; `outside` leads to the directory of all others."""
    text = path.read_text()
    made = converter(path.stem)
    body = made.convert(listed(text))
    top = made.toc_tokens[0] if made.toc_tokens else {"name": path.stem, "children": []}
    title = re.search(r"(?m)^# (.+)$", text)
    body = re.sub(r"<h1[^>]*>.*?</h1>", "", body, count=1)
    # The report has a heading above those of the pages.
    body = re.sub(r"<(/?)h([2-5])\b", lambda m: f"<{m[1]}h{int(m[2]) + 1}", body)
    body = PICTURE.sub(lambda m: picture(path.parent / m[2], m[1]), body)
    body = LINK.sub(lambda m: link(m[1], m[2] or "", there, outside), body)
    body = TABLE.sub(lambda m: f'<div class="wide" tabindex="0">{coloured(m[0])}</div>', body)
    headings = tuple((each["id"], each["name"]) for each in top["children"])
    return Section(path.stem, title[1] if title else path.stem, headings, body, tuple(bars(text)))


def picture(path: Path, alt: str) -> str:
    """As data, so that the styles of one picture do not reach the next."""
    if not path.is_file():
        return f"<em>{alt}: {path.name} is missing</em>"
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img class="picture" alt="{alt}" src="data:image/svg+xml;base64,{data}">'


def link(target: str, place: str, there: Sequence[str], outside: str) -> str:
    name = Path(target).stem
    if target == f"{name}.md" and name in there:
        return f'<a href="#{name}">'
    return f'<a href="{outside}{target}{place}">'


def coloured(table: str) -> str:
    """Verdicts are seen at a glance, and not by colour alone."""
    table = re.sub(r"<td>(?:<strong>)?no(?:</strong>)?</td>", '<td class="no">no</td>', table)
    return table.replace("<td>yes</td>", '<td class="yes">yes</td>')


def summary(sections: Sequence[Section]) -> str:
    """How many bars of each page are met, and all of them."""
    counts, rows = [], []
    for each in sections:
        met, missed = (sum(verdict(bar) == word for bar in each.bars) for word in (MET, MISSED))
        if not each.bars:
            continue
        title = f'<a href="#{each.name}">{escape(each.title)}</a>'
        counts.append(f"<tr><td>{title}</td><td>{met} of {met + missed}</td></tr>")
        rows.append(f'<tr class="page"><th colspan="5">{title}</th></tr>')
        for bar in each.bars:
            what, wanted, measured, count, _ = (plain(cell) for cell in bar)
            said = verdict(bar)
            rows.append(f'<tr><td>{what}</td><td>{wanted}</td><td>{measured}</td><td>{count}</td>'
                        f'<td class="{said or "none"}">{said}</td></tr>')
    every = [verdict(bar) for each in sections for bar in each.bars]
    met, judged = every.count(MET), every.count(MET) + every.count(MISSED)
    heads = "".join(f"<th>{head}</th>" for head in BAR_HEADS)
    return (f'<section id="bars"><h2>All bars</h2><p><strong>{met} of {judged}</strong> bars are met; '
            f"{len(every) - judged} rows are shown and not judged.</p>"
            '<div class="wide"><table><thead><tr><th>page</th><th>met</th></tr></thead><tbody>'
            f'{"".join(counts)}</tbody></table></div><details open><summary>Every bar: what was wanted, what was measured</summary>'
            f'<div class="wide" tabindex="0"><table class="bars"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}'
            "</tbody></table></div></details></section>")


def plain(cell: str) -> str:
    """What Markdown means in a cell of a table, as far as the pages use it."""
    text = escape(cell.replace("\\|", "|"), quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)


def contents(sections: Sequence[Section]) -> str:
    rows = []
    for each in sections:
        below = "".join(f'<li><a href="#{id_}">{name}</a></li>' for id_, name in each.headings)
        head = f'<a href="#{each.name}">{escape(each.title)}</a>'
        rows.append(f"<li>{head}</li>" if not below else
                    f"<li><details><summary>{head}</summary><ul>{below}</ul></details></li>")
    return ('<nav aria-label="Contents"><h2>Contents</h2><ul><li><a href="#bars">All bars</a></li>'
            f'{"".join(rows)}</ul></nav>')


def report(sections: Sequence[Section]) -> str:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    bodies = "".join(f'<section id="{each.name}"><h2>{escape(each.title)}</h2>{each.body}'
                     '<p class="back"><a href="#top">Back to the contents</a></p></section>' for each in sections)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
            f'content="light dark"><title>Tidegate: what was measured</title><style>{STYLE}</style></head>'
            f'<body id="top"><header><h1>Tidegate: what was measured</h1><p>Put together on {now} on '
            f"{escape(describe())}. Each page says where and when its own figures are from.</p></header>"
            f"{contents(sections)}<main>{summary(sections)}{bodies}</main></body></html>\n")


def write(pages: Path, output: Path, first: Sequence[str]) -> None:
    """All pages of a directory: those named first in that order, then the others."""
    paths = {path.stem: path for path in sorted(pages.glob("*.md"))}
    order = [*(name for name in first if name in paths), *(name for name in paths if name not in first)]
    outside = os.path.relpath(pages, output.parent) + "/"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(report([section(paths[name], order, outside) for name in order]))
