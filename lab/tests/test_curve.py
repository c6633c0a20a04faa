"""Curves of y against x: coordinates, names that do not overlap, and that it is XML."""

import unittest
from xml.etree import ElementTree

from lab.pages import curve
from lab.pages.plot import LEFT

POINTS = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0)]


class Curves(unittest.TestCase):
    def test_a_doubling_axis_has_equal_steps(self) -> None:
        on = curve.plane([curve.Curve("a", "red", POINTS)], [], log_x=True)
        self.assertEqual((on.x(1), on.x(4)), (LEFT, on.right))
        self.assertAlmostEqual(on.x(2), (LEFT + on.right) / 2)

    def test_a_plain_axis_begins_at_zero(self) -> None:
        on = curve.plane([curve.Curve("a", "red", POINTS)], [], log_x=False)
        self.assertEqual((on.x(0), on.x(4)), (LEFT, on.right))

    def test_names_are_kept_apart_in_order(self) -> None:
        places = curve.spaced([100, 101, 300, 99], apart=10)
        self.assertEqual(places[2], 300)
        self.assertEqual([places[i] for i in (3, 0, 1)], [90, 100, 110])

    def test_levels_go_from_pale_to_dark(self) -> None:
        found = curve.levels(7)
        self.assertEqual(len(set(found)), 7)
        brightness = [sum(bytes.fromhex(colour[1:])) for colour in found]
        self.assertEqual(brightness, sorted(brightness, reverse=True))
        self.assertEqual(len(curve.levels(1)), 1)

    def test_it_is_xml_with_a_name_a_line(self) -> None:
        lines = [curve.Curve("0 < 1", "red", POINTS, spread=[(1.0, 8.0, 12.0)]), curve.Curve("none", "blue", [])]
        tree = ElementTree.fromstring(curve.draw("a & b", lines, "streams", "Mbit/s", log_x=True, marks=[50]))
        self.assertEqual(len(tree.findall("{*}path")), 2)
        self.assertEqual(len(tree.findall("{*}circle")), 3)
        texts = [each.text for each in tree.findall("{*}text")]
        self.assertIn("0 < 1", texts)
        self.assertNotIn("none", texts)

    def test_nothing_to_draw_is_said(self) -> None:
        with self.assertRaisesRegex(ValueError, "a: nothing to draw"):
            curve.draw("a", [], "x", "y")
