"""What a notebook shows: curves of a run, and a view that is drawn anew; without a notebook."""

import json
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import tidegate
from tidegate import _notebook
from tidegate._curves import MAX_POINTS, Moment, drawn, of_log
from tidegate._types import PerStage


def epoch(seconds, workers, bps):
    stages = dict(zip(("read", "network", "write"), workers, strict=True))
    return json.dumps({"t_ms": seconds * 1000, "concurrency": stages, "throughput_bps": dict.fromkeys(stages, bps)})


class Curves(unittest.TestCase):
    def test_a_log_becomes_three_curves_and_a_rate(self):
        lines = [epoch(i, (i, 2, 1), i * 1e8) for i in range(1, 9)] + ['{"t_ms":']
        moments = of_log(lines)
        self.assertEqual(moments[7], Moment(8.0, PerStage(8, 2, 1), 8e8))
        svg = ElementTree.fromstring(drawn(moments, "<auto>"))
        curves = [path for path in svg.iter("{http://www.w3.org/2000/svg}path") if path.get("stroke-width")]
        self.assertEqual((len(moments), len(curves)), (8, 4))
        self.assertIn("Mbit/s", [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")])

    def test_no_curve_has_more_points_than_are_seen(self):
        moments = [Moment(i / 10, PerStage(1, 1, 1), 0.0) for i in range(36_000)]
        self.assertLessEqual(drawn(moments).count("L"), 4 * MAX_POINTS)
        ElementTree.fromstring(drawn([]))

    def test_a_result_is_plotted_from_its_log(self):
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory, "log.jsonl")
            log.write_text(epoch(1, (1, 2, 3), 1e6) + "\n")
            told = {"status": "complete", "verified": True, "files": {"total": 1, "ok": 1, "failed": 0, "skipped": 0}, "bytes": 1,
                    "resent_bytes": 0, "duration_ms": 1, "goodput_bps": 8, "optimizer": "auto",
                    "concurrency_mean": {"read": 1, "network": 1, "write": 1}, "failures": []}
            result = tidegate.TransferResult.of_json(told | {"log": str(log)})
            result.plot().save(log.with_suffix(".svg"))
            ElementTree.parse(log.with_suffix(".svg"))
            with self.assertRaisesRegex(ValueError, "nothing to plot"):
                tidegate.TransferResult.of_json(told).plot()


class Notebook(unittest.TestCase):
    def setUp(self):
        self.shown = shown = []
        handle = types.SimpleNamespace(update=shown.append)
        display = types.SimpleNamespace(display=lambda view, display_id: shown.append(view) or handle)
        shell = types.SimpleNamespace(kernel=object())
        modules = {"IPython": types.SimpleNamespace(get_ipython=lambda: shell, display=display), "IPython.display": display}
        patch = mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.here = Path(directory.name)
        (self.here / "a").write_bytes(b"a" * 100_000)

    def last(self):
        return self.shown[-1]._repr_html_()

    def test_a_copy_is_shown_and_how_it_ends(self):
        self.assertTrue(_notebook.is_here())
        tidegate.copy(self.here / "a", self.here / "b")
        self.assertIn("copy · done · 97.7 KiB of 97.7 KiB · 1 files", self.last())

    def test_what_goes_wrong_is_shown_and_raised(self):
        with self.assertRaises(tidegate.NotFoundError):
            tidegate.copy(self.here / "no<thing>", self.here / "b")
        self.assertIn("no&lt;thing&gt;", self.last())

    def test_who_is_told_otherwise_or_wants_nothing_sees_nothing(self):
        tidegate.copy(self.here / "a", self.here / "b", progress=lambda seen: None)
        tidegate.copy(self.here / "a", self.here / "c", progress=False)
        tidegate.hash(self.here / "a")
        self.assertEqual(self.shown, [])


class Elsewhere(unittest.TestCase):
    def test_a_program_is_no_notebook(self):
        self.assertFalse(_notebook.is_here())
