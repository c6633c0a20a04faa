"""TransferEnv: Gymnasium's own checker, episodes, seeds, actions, rewards."""

import unittest
import warnings

import gymnasium
import numpy as np
import tidegate
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from common import SCENARIOS, scenario, text

PATH = str(SCENARIOS / "automdt-read.toml")


def action_of(bounds, setpoint):
    """The continuous action that asks for `setpoint`."""
    low, high = np.array(bounds).T
    span = np.log(high / low)
    return np.where(span > 0, 2 * np.log(setpoint / low) / np.where(span > 0, span, 1) - 1, 0.0)


class CheckerTest(unittest.TestCase):
    def test_the_checker_has_no_complaint(self):
        for arguments in (
            {"actions": "continuous"},
            {"actions": "discrete", "reward": "automdt"},
            {"reward": "ldm", "epochs": 3, "start": (1, 2, 3), "reference_bps": 1e6},
            {"scenario": str(SCENARIOS / "per-stream-cap.toml"), "actions": "discrete"},
        ):
            made = gymnasium.make("tidegate/Transfer-v0", **{"scenario": PATH} | arguments)
            with self.subTest(**arguments), warnings.catch_warnings():
                warnings.simplefilter("error")
                check_env(made.unwrapped)
            made.close()

    def test_scenarios_of_every_kind_stay_in_the_spaces(self):
        for file in sorted(SCENARIOS.glob("*.toml")):
            env = tidegate.TransferEnv(file, epochs=80)
            env.action_space.seed(1)
            seen, _ = env.reset(seed=1)
            over = False
            while not over:
                self.assertIn(seen, env.observation_space, file.name)
                seen, reward, terminated, truncated, _ = env.step(env.action_space.sample())
                self.assertTrue(np.isfinite(reward))
                over = terminated or truncated


class EpisodeTest(unittest.TestCase):
    def test_an_episode_is_truncated_after_its_epochs(self):
        env = tidegate.TransferEnv(PATH, epochs=5)
        self.assertRaises(ResetNeeded, env.step, np.zeros(3))
        for _ in range(2):
            env.reset()
            ends = [env.step(np.zeros(3))[2:4] for _ in range(5)]
            self.assertEqual(ends, [(False, False)] * 4 + [(False, True)])
            self.assertRaises(ResetNeeded, env.step, np.zeros(3))

    def test_an_episode_is_terminated_when_everything_is_moved(self):
        size = "[dataset]\nsize = '{}'"
        env = tidegate.TransferEnv(tidegate.Scenario(text(size.format("500MB"))), start=(1, 10, 1))
        _, info = env.reset(seed=1)
        self.assertEqual(info["observation"].remaining_bytes, 375_000_000)
        ends = [env.step([1, 1, 1])[2:4] for _ in range(3)]
        self.assertEqual(ends, [(False, False), (False, False), (True, False)])
        # One that the epoch of the reset moves whole has nothing left to be rewarded for.
        env = tidegate.TransferEnv(tidegate.Scenario(text(size.format("1MB"))), start=(1, 10, 1))
        env.reset(seed=1)
        _, reward, terminated, truncated, _ = env.step(np.zeros(3))
        self.assertEqual((reward, terminated, truncated), (0.0, True, False))

    def test_seeds_fix_all_episodes(self):
        def run(seed):
            env = tidegate.TransferEnv(str(SCENARIOS / "noisy.toml"), epochs=3)
            seen = [env.reset(seed=seed)[0]]
            for episode in range(3):
                seen += [env.step([0.1, 0.2, 0.3])[0] for _ in range(3)]
                seen.append(env.reset()[0])
            return np.array(seen)

        np.testing.assert_array_equal(run(7), run(7))
        first = run(7)
        self.assertFalse(np.array_equal(first, run(8)))
        self.assertFalse(np.array_equal(first[:4], first[4:8]), "episodes differ from each other")
        self.assertFalse(np.array_equal(run(None), run(None)), "without a seed runs differ")
        env = tidegate.TransferEnv(PATH)
        for wrong in (-1, 1.5, "one"):
            self.assertRaises(Exception, env.reset, seed=wrong)
        env.reset(seed=2**64 + 5)

    def test_an_episode_starts_where_it_is_told(self):
        env = tidegate.TransferEnv(PATH, start=(2, 3, 4))
        self.assertEqual(list(env.reset()[1]["concurrency"]), [2, 3, 4])
        self.assertEqual(list(env.reset(options={"start": [40, 1, 30]})[1]["concurrency"]), [30, 1, 30])
        for options in ({"begin": 1}, {"start": (1, 2)}, {"start": "here"}, {"start": (0, 1, 1)}):
            with self.assertRaises(ValueError):
                env.reset(options=options)

    def test_a_line_of_text_shows_the_epoch(self):
        env = tidegate.TransferEnv(PATH, epochs=7, start=(13, 7, 5), render_mode="ansi")
        self.assertIn("reset", env.render())
        env.reset(seed=1)
        env.step(action_of(env.scenario.bounds, (2, 30, 30)))
        line = env.render()
        for part in ("1/7", "read   2", "Mbit/s", "network  30", "write  30", "of the best"):
            self.assertIn(part, line)
        self.assertIsNone(tidegate.TransferEnv(PATH).render())


class ActionTest(unittest.TestCase):
    def asked(self, env, action):
        env.reset(seed=1)
        return tuple(env.step(np.array(action))[4]["concurrency"])

    def test_continuous_actions_span_the_bounds_evenly_in_the_logarithm(self):
        env = tidegate.TransferEnv(PATH)
        for action, n in (
            ([-1, 0, 1], (1, 5, 30)),
            ([-9, 9, 0.5], (1, 30, 13)),
            (action_of(env.scenario.bounds, (13, 7, 5)), (13, 7, 5)),
        ):
            self.assertEqual(self.asked(env, action), n)

    def test_discrete_actions_count_from_the_fewest(self):
        path = tidegate.Scenario(text(network="worker_rate = '1Mbit/s'\nmin_workers = 4\nmax_workers = 9"))
        env = tidegate.TransferEnv(path, actions="discrete")
        self.assertEqual(list(env.action_space.nvec), [1, 6, 1])
        self.assertEqual(self.asked(env, [0, 0, 0]), (1, 4, 1))
        self.assertEqual(self.asked(env, [0, 5, 0]), (1, 9, 1))

    def test_what_is_no_action_is_refused_and_no_time_passes(self):
        nan, inf = float("nan"), float("inf")
        for kind, wrong in (
            ("continuous", [[nan, 0, 0], [0, inf, 0], [0, 0, -inf], [0, 0], [[0, 0, 0]], ["a", 0, 0], None]),
            ("discrete", [[nan, 0, 0], [-1, 0, 0], [0, 30, 0], [0, 0, 0.5], 3]),
        ):
            env = tidegate.TransferEnv(PATH, actions=kind)
            env.reset(seed=1)
            at = env.step(np.zeros(3))[4]["observation"].at_ms
            for action in wrong:
                with self.subTest(kind=kind, action=action), self.assertRaises((ValueError, TypeError)) as caught:
                    env.step(action)
                self.assertNotIn("\n", str(caught.exception))
            self.assertEqual(env.step(np.zeros(3))[4]["observation"].at_ms, at + 1000)
        env = tidegate.TransferEnv(PATH)
        env.reset()
        with self.assertRaisesRegex(ValueError, "network is NaN"):
            env.step([0, nan, 0])


class RewardTest(unittest.TestCase):
    def step(self, setpoint, **arguments):
        path = scenario("automdt-read")
        env = tidegate.TransferEnv(path, start=setpoint, **arguments)
        env.reset(seed=1)
        for _ in range(3):
            _, reward, _, _, info = env.step(action_of(path.bounds, setpoint))
        return reward, info["observation"]

    def test_end_to_end(self):
        reward, seen = self.step((13, 7, 5))
        price = sum(1.02**-n for n in (13, 7, 5)) / 3
        self.assertAlmostEqual(reward, seen.goodput_bps / 1e9 * price)
        self.assertAlmostEqual(self.step((13, 7, 5), reference_bps=2e9, k=1.5)[0] * 2e9, seen.goodput_bps * sum(1.5**-n for n in (13, 7, 5)) / 3, delta=1)

    def test_the_papers(self):
        reward, seen = self.step((13, 7, 5), reward="automdt")
        self.assertAlmostEqual(reward, sum(t / 1e6 * 1.02**-n for t, n in zip(seen.throughput_bps, (13, 7, 5))))
        reward, seen = self.step((13, 7, 5), reward="ldm")
        self.assertAlmostEqual(reward, seen.goodput_bps / 1e6 * 1.02**-7 - 10 * seen.loss)

    def test_filling_the_staging_pays_only_in_the_papers_form(self):
        self.assertGreater(self.step((30, 7, 5), reward="automdt")[0], self.step((13, 7, 5), reward="automdt")[0])
        self.assertLess(self.step((30, 7, 5))[0], self.step((13, 7, 5))[0])

    def test_impossible_settings_are_refused_by_name(self):
        for name, value in (
            ("reward", "money"),
            ("actions", "none"),
            ("epochs", 0),
            ("epoch_ms", 1),
            ("epoch_ms", float("nan")),
            ("k", 1.0),
            ("reference_bps", 0),
            ("reference_bps", float("nan")),
            ("start", "here"),
            ("start", (1, 2)),
            ("render_mode", "human"),
        ):
            for make in (tidegate.TransferEnv, tidegate.TransferVectorEnv):
                with self.subTest(name=name, value=value), self.assertRaisesRegex(ValueError, name):
                    make(PATH, **{name: value})


if __name__ == "__main__":
    unittest.main()
