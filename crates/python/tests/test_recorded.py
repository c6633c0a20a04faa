"""The same observations give the same answers here, in `tidegate simulate` and in a transfer.

`recorded.json` is what `auto` was shown and answered there; the test `a_rule_answers_alike_whoever_asks` of the command
holds it to be so.
"""

import json
import unittest
from pathlib import Path

import tidegate

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
EPOCHS = RECORDED["epochs"]


def answers(rule, observations):
    """The set-points that a rule begins with and answers."""
    return [list(rule.start()), *(list(rule.propose(seen)) for seen in observations)]


class RecordedTest(unittest.TestCase):
    def test_the_recorded_observations_give_the_recorded_answers(self):
        seen = [tidegate.Observation(**epoch["seen"]) for epoch in EPOCHS]
        expected = [RECORDED["start"], *(epoch["next"] for epoch in EPOCHS)]
        self.assertGreater(len({tuple(setpoint) for setpoint in expected}), 5)
        rule = tidegate.Optimizer("auto", bounds=RECORDED["bounds"])
        self.assertEqual(answers(rule, seen), expected)
        # They do depend on what is seen.
        halved = [tidegate.Observation(**epoch["seen"] | {"throughput_bps": [1, 1, 1]}) for epoch in EPOCHS]
        self.assertNotEqual(answers(tidegate.Optimizer("auto", bounds=RECORDED["bounds"]), halved), expected)


if __name__ == "__main__":
    unittest.main()
