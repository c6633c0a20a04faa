"""The page about the service, from figures made up."""

import unittest
from typing import Any

from lab.eos.report import bars, page

LOAD = {"n": 3, "median_ms": 1.5, "p99_ms": 60.0, "worst_ms": 90.0, "rate_per_s": 2000.0, "errors": 0,
        "ramped_answered": 5000, "ramped_errors": 0, "memory_mb": 80.0}
QUEUE = {"submitted_per_s": 1500, "page_ms": 2.0, "page_worst_ms": 4.0, "cancel_ms": 1.0, "cancel_worst_ms": 51.0,
         "memory_mb": 40.0}
PATHS = {"link_mbit": 1000, "cap_mbit": 120,
         "chosen": {"native": {"best": 8, "best_bps": 9.5e8, "streams": [8, 9], "predicted_bps": [9.4e8, 9.6e8],
                               "achieved_bps": [9.5e8, 9.4e8], "share": 0.995, "cost_ms": [4000, 4100]},
                    "iperf3": {"error": "iperf3: it is not there"}},
         "pays": [{"size": "256 MB", "plain_s": 8.0, "estimate_s": 4.0, "optimized_s": 9.0, "streams": 8, "ratio": 0.89,
                   "n": 1},
                  {"size": "1 GB", "plain_s": 70.0, "estimate_s": 4.0, "optimized_s": 14.0, "streams": 8, "ratio": 5.0,
                   "n": 1}]}


class Page(unittest.TestCase):
    def test_each_bar_is_judged_by_its_own_figure(self) -> None:
        found: dict[str, Any] = {"load": LOAD, "queue": QUEUE, "paths": PATHS}
        verdicts = [row[3] for row in bars(found)]
        self.assertEqual(verdicts, ["yes", "no", "yes", "no", "yes", "no", "yes", "yes", "yes"])
        # What takes less than ten seconds anyway is shown and not judged.
        self.assertNotIn("256 MB", str(bars(found)))
        text = page(found, "tidegate 0.1.0")
        self.assertIn("| 256 MB |", text)
        self.assertIn("it is not there", text)

    def test_what_was_not_measured_is_left_out(self) -> None:
        self.assertEqual(bars({}), [])
        self.assertIn("# Estimates and the service", page({}, ""))


if __name__ == "__main__":
    unittest.main()
