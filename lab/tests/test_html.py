"""The HTML report: bars from every page, links, pictures as data, and nothing beside it."""

import re
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

from lab.pages import html
from lab.pages.parts import Bar, bars_table, table

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg"><style>text { fill: red }</style></svg>'
BARS = [Bar("a < b", "≥ 1", "2.00", True, 5), Bar("`auto` ÷ best", "≥ 0.95", "0.9 (0.8–1.0)", False, 3),
        Bar("only shown", "", "7", None, 1)]
FIRST = f"""# First & foremost

Text.
- one
- two

## Bars

{bars_table(BARS)}
## A table of another kind

{table(["what", "met"], [["x", "no"]])}
![over time](one.svg)

See [second](second.md), [the figures](first.csv) and [elsewhere](https://example.org/a.md).
"""


class Tags(HTMLParser):
    """Every tag that is opened is closed, and which ids there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.ids += [held["id"] or ""] if "id" in held else []
        self.targets += [(held["href"] or "")] if "href" in held else []
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            raise AssertionError(f"{tag} closes something else")


class Bars(unittest.TestCase):
    def test_only_tables_with_the_heads_of_bars_count(self) -> None:
        self.assertEqual([html.verdict(row) for row in html.bars(FIRST)], ["yes", "no", ""])

    def test_a_bar_within_a_cell_does_not_end_it(self) -> None:
        self.assertEqual(html.cells("| a \\| b | c |"), ("a \\| b", "c"))
        self.assertEqual(html.plain("a \\| `b` **c** [d](e.md) <f>"), "a | <code>b</code> <strong>c</strong> d &lt;f&gt;")


class Report(unittest.TestCase):
    def setUp(self) -> None:
        try:
            html.markdown()
        except html.Missing as reason:
            self.skipTest(str(reason))
        held = Path(self.enterContext(tempfile.TemporaryDirectory()))
        pages, output = Path(held, "docs"), Path(held, "target", "report.html")
        pages.mkdir()
        (pages / "first.md").write_text(FIRST)
        (pages / "second.md").write_text("# Second\n\n## Bars\n\nNothing has been measured yet.\n")
        (pages / "one.svg").write_text(PICTURE)
        html.write(pages, output, ["second", "absent"])
        self.text = output.read_text()
        self.tags = Tags(self.text)

    def test_it_is_whole(self) -> None:
        self.assertEqual(self.tags.open, [])
        self.assertEqual(len(self.tags.ids), len(set(self.tags.ids)))
        inside = {target[1:] for target in self.tags.targets if target.startswith("#")}
        self.assertLessEqual(inside, set(self.tags.ids))
        self.assertIn("second-bars", inside)

    def test_nothing_is_loaded_from_elsewhere(self) -> None:
        self.assertEqual([src[:5] for src in re.findall(r'(?<!\w)src="([^"]*)"', self.text)], ["data:"])
        self.assertNotIn("<link", self.text)
        self.assertNotIn("fill: red", self.text)

    def test_links_lead_to_pages_inside_and_to_files_outside(self) -> None:
        self.assertIn('<a href="#second">second</a>', self.text)
        self.assertIn('<a href="../docs/first.csv">the figures</a>', self.text)
        self.assertIn('<a href="https://example.org/a.md">', self.text)

    def test_all_bars_are_at_the_top(self) -> None:
        top = self.text[:self.text.index('<section id="second">')]
        self.assertIn("<strong>1 of 2</strong> bars are met; 1 rows are shown and not judged.", top)
        self.assertIn("<td>a &lt; b</td><td>≥ 1</td><td>2.00</td><td>5</td><td class=\"yes\">yes</td>", top)
        self.assertIn("<code>auto</code> ÷ best", top)

    def test_pages_are_in_the_order_asked_for_and_lists_are_lists(self) -> None:
        self.assertLess(self.text.index('<section id="second">'), self.text.index('<section id="first">'))
        self.assertIn("<li>one</li>", self.text)
