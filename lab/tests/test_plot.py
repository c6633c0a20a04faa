"""The pictures: coordinates, ticks, and that it is XML."""

import unittest
from xml.etree import ElementTree

from lab.pages import plot

RUN = [(1.0, 2.0), (3.0, 4.0)]


class Picture(unittest.TestCase):
    def test_ticks_are_round(self) -> None:
        self.assertEqual(plot.ticks(35), [0, 10, 20, 30])
        self.assertEqual(plot.ticks(2), [0, 0.5, 1, 1.5, 2])
        self.assertEqual(plot.time_ticks(186), [0, 30, 60, 90, 120, 150, 180])
        self.assertEqual(plot.time_ticks(20), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20])

    def test_a_value_holds_until_its_time(self) -> None:
        frame = plot.Frame(plot.Panel("p", [plot.Line("l", "red", RUN)]), top=0, seconds=4)
        self.assertEqual((frame.x(0), frame.x(4)), (plot.LEFT, plot.WIDTH - plot.RIGHT))
        self.assertEqual((frame.y(0), frame.y(frame.panel.most)), (plot.HEIGHT, 0))
        self.assertEqual(frame.staircase(RUN), f"M{frame.x(0):.1f} {frame.y(2):.1f}H{frame.x(1):.1f}"
                                               f"V{frame.y(4):.1f}H{frame.x(3):.1f}")

    def test_it_is_xml_with_a_path_a_run(self) -> None:
        line = plot.Line("a < b", plot.BLUE, RUN, faint=[RUN, RUN])
        text = plot.draw("title & more", [plot.Panel("one", [line], [9]), plot.Panel("two", [line])])
        tree = ElementTree.fromstring(text)
        self.assertEqual(len(tree.findall("{*}path")), 6)
        self.assertEqual(len([each for each in tree.findall("{*}line") if each.get("class") == "mark"]), 1)
        self.assertIn("a < b", [each.text for each in tree.findall("{*}text")])

    def test_a_long_title_has_two_lines(self) -> None:
        panel = plot.Panel("p", [plot.Line("l", "red", RUN)])
        texts = ElementTree.fromstring(plot.draw("word " * 25, [panel])).findall("{*}text[@class='title']")
        self.assertEqual([each.text.count("word") for each in texts], [18, 7])
        self.assertEqual([each.get("y") for each in texts], ["24", "42"])

    def test_a_legend_that_would_run_into_the_label_has_a_line_of_its_own(self) -> None:
        short, long = (plot.Panel("p" * 40, [plot.Line("l" * n, "red", RUN) for _ in range(4)]) for n in (2, 20))
        heights = [float(ElementTree.fromstring(plot.draw("t", [panel])).attrib["height"]) for panel in (short, long)]
        self.assertEqual((plot.crowded(short), plot.crowded(long)), (False, True))
        self.assertGreater(heights[1], heights[0])

    def test_a_mark_is_within_the_panel(self) -> None:
        self.assertGreater(plot.Panel("p", [plot.Line("l", "red", RUN)], [9]).most, 9)
