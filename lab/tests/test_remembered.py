import unittest

from lab.remembered.cases import FIXED, NONE, RIGHT, WRONG, risen, scaled
from lab.remembered.page import bars


class Remembered(unittest.TestCase):
    def test_the_rise_is_counted_from_the_first_content(self) -> None:
        # Nothing for 0.5 s, half the rate until 1.5 s, then all of it until 6 s.
        samples = []
        for i in range(140):
            second = 0.05 * i
            half = max(0.0, min(second, 1.5) - 0.5) * 50e6
            samples.append((second, int(half + max(0.0, min(second, 6.0) - 1.5) * 100e6), 1))
        found = risen(samples, 0.2)
        self.assertAlmostEqual(found["begun_s"], 0.55, delta=0.03)
        self.assertAlmostEqual(found["late_bps"], 800e6, delta=10e6)
        # 90 % of a window is full rate where 160 of its 200 ms are.
        self.assertAlmostEqual(found["reached_s"], 1.0, delta=0.12)

    def test_a_memory_is_made_wrong_by_its_workers_and_by_what_they_can_do(self) -> None:
        stage = {"workers": 8, "throughput_bps": 1, "looks": [{"workers": 8, "able_bps": 800}, {"workers": 1, "able_bps": 100}]}
        wrong = scaled({"memory": {"stages": {"network": stage}}}, 0.25, 0.25)["memory"]["stages"]["network"]
        self.assertEqual(wrong["workers"], 2)
        self.assertEqual(wrong["looks"], [{"workers": 2, "able_bps": 200}, {"workers": 1, "able_bps": 25}])
        self.assertEqual(stage["workers"], 8)

    def test_the_bars_take_the_worst_of_the_wrong_memories(self) -> None:
        run = {name: {"reached_s": 0.5, "epochs": 3} for name in (NONE, RIGHT, FIXED, *WRONG)}
        run["of a wider link"] = {"reached_s": 2.0, "epochs": 6}
        met = [bar.met for bar in bars({"rtt-1": [run]})]
        self.assertEqual(met, [True, False])
        run[RIGHT] = {"reached_s": 1.2, "epochs": 3}
        self.assertEqual([bar.met for bar in bars({"rtt-1": [run]})], [False, False])


if __name__ == "__main__":
    unittest.main()
