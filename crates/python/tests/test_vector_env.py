"""TransferVectorEnv: the same as single environments, whichever way episodes are begun anew."""

import unittest

import gymnasium
import numpy as np
import tidegate
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from common import SCENARIOS, scenario, text

PATH = str(SCENARIOS / "noisy.toml")
COUNT = 3


class SameTest(unittest.TestCase):
    def assert_same(self, ours, theirs):
        self.assertEqual(set(theirs) - {"observation", "_observation"}, set(ours))
        for key, value in ours.items():
            if isinstance(value, dict):
                self.assert_same(value, theirs[key])
            elif key == "final_obs":
                for a, b in zip(value, theirs[key]):
                    np.testing.assert_array_equal(a, b)
            else:
                self.assertEqual(value.dtype, theirs[key].dtype, key)
                mask = ours.get(f"_{key}", slice(None))
                np.testing.assert_array_equal(value[mask], theirs[key][mask], key)

    def test_it_behaves_as_gymnasiums_own_vector_of_single_environments(self):
        # A data set ends some episodes early, so paths reset at different times.
        path = tidegate.Scenario(text("[dataset]\nsize = '300MB'", "[noise]\nthroughput = 0.1"))
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            for seed in (5, [9, 2, 2**40]):
                arguments = {"epochs": 7}
                ours = tidegate.TransferVectorEnv(path, COUNT, autoreset_mode=mode, **arguments)
                single = [lambda: tidegate.TransferEnv(path, **arguments)] * COUNT
                theirs = SyncVectorEnv(single, autoreset_mode=mode)
                self.assertEqual(ours.observation_space, theirs.observation_space)
                self.assertEqual(ours.action_space, theirs.action_space)
                ours.action_space.seed(1)
                mine, info = ours.reset(seed=seed)
                yours, expected = theirs.reset(seed=seed)
                np.testing.assert_array_equal(mine, yours)
                self.assert_same(info, expected)
                ended = set()
                for _ in range(40):
                    actions = ours.action_space.sample()
                    *results, info = ours.step(actions)
                    *others, expected = theirs.step(actions)
                    for a, b in zip(results, others):
                        self.assertEqual(a.dtype, b.dtype)
                        np.testing.assert_array_equal(a, b)
                    self.assert_same(info, expected)
                    ended.add((bool(results[2].any()), bool(results[3].any())))
                self.assertGreaterEqual(len(ended), 3, "episodes were terminated and truncated")

    def test_disabled_autoreset_takes_a_mask(self):
        envs = tidegate.TransferVectorEnv(PATH, COUNT, epochs=2, autoreset_mode="Disabled")
        envs.reset(seed=1)
        before = [envs.step(np.zeros((COUNT, 3))) for _ in range(2)][-1][0]
        self.assertRaises(ResetNeeded, envs.step, np.zeros((COUNT, 3)))
        mask = np.array([True, False, True])
        after, info = envs.reset(options={"reset_mask": mask})
        np.testing.assert_array_equal(info["_goodput_bps"], mask)
        np.testing.assert_array_equal(after[1], before[1])
        self.assertFalse(np.array_equal(after[0], before[0]))
        for wrong in ([True] * 3, np.zeros(COUNT, dtype=bool), np.ones(2, dtype=bool), np.ones(COUNT)):
            with self.assertRaisesRegex(ValueError, "reset_mask"):
                envs.reset(options={"reset_mask": wrong})


class VectorTest(unittest.TestCase):
    def test_results_are_the_callers_to_keep(self):
        envs = tidegate.TransferVectorEnv(PATH, COUNT)
        first, info = envs.reset(seed=1)
        kept, goodput = first.copy(), info["goodput_bps"].copy()
        results = [envs.step(envs.action_space.sample()) for _ in range(3)]
        np.testing.assert_array_equal(first, kept)
        np.testing.assert_array_equal(info["goodput_bps"], goodput)
        self.assertFalse(np.shares_memory(results[0][0], results[1][0]))
        self.assertEqual(results[0][0].shape, (COUNT, 9))
        seen = envs.observations()
        self.assertEqual([one.goodput_bps for one in seen], list(results[2][4]["goodput_bps"]))

    def test_paths_may_differ(self):
        names = ["automdt-read", "fastbiodl-500", "per-stream-cap"]
        envs = tidegate.TransferVectorEnv([scenario(name) for name in names], epochs=5)
        self.assertEqual([path.name for path in envs.scenarios], names)
        envs.reset(seed=1)
        *_, info = envs.step(np.ones((COUNT, 3), dtype=np.float32))
        most = [[stage.max for stage in path.bounds] for path in envs.scenarios]
        np.testing.assert_array_equal(info["concurrency"], most)
        with self.assertRaisesRegex(ValueError, "bounds"):
            tidegate.TransferVectorEnv(envs.scenarios, actions="discrete")
        with self.assertRaisesRegex(ValueError, "num_envs"):
            tidegate.TransferVectorEnv(envs.scenarios, num_envs=2)
        with self.assertRaisesRegex(ValueError, "at least one"):
            tidegate.TransferVectorEnv([])
        for count in (0, -1, 2.5, True):
            with self.assertRaisesRegex(ValueError, "num_envs"):
                tidegate.TransferVectorEnv(PATH, num_envs=count)

    def test_one_wrong_action_stops_all_paths(self):
        envs = tidegate.TransferVectorEnv(PATH, COUNT)
        self.assertRaises(ResetNeeded, envs.step, np.zeros((COUNT, 3)))
        envs.reset(seed=1)
        wrong = np.zeros((COUNT, 3))
        wrong[1, 2] = np.nan
        with self.assertRaisesRegex(ValueError, "path 1: write is NaN"):
            envs.step(wrong)
        self.assertEqual({seen.at_ms for seen in envs.observations()}, {1000})
        for wrong in (np.zeros(3), np.zeros((COUNT, 2)), np.zeros((COUNT + 1, 3))):
            with self.assertRaisesRegex(ValueError, "shape"):
                envs.step(wrong)

    def test_seeds_are_checked(self):
        envs = tidegate.TransferVectorEnv(PATH, COUNT)
        for wrong in (-1, [1, 2], [1, 2, -3], [1, 2, "three"]):
            self.assertRaises(Exception, envs.reset, seed=wrong)
        envs.reset(seed=[1, None, 3])
        a, _ = tidegate.TransferVectorEnv(PATH, COUNT).reset()
        b, _ = tidegate.TransferVectorEnv(PATH, COUNT).reset()
        self.assertFalse(np.array_equal(a, b), "without a seed they differ")

    def test_gymnasium_makes_it_by_name(self):
        envs = gymnasium.make_vec("tidegate/Transfer-v0", num_envs=4, scenario=PATH, render_mode="ansi")
        self.assertIsInstance(envs.unwrapped, tidegate.TransferVectorEnv)
        envs.reset(seed=1)
        self.assertEqual(len(envs.render()), 4)
        envs.close()


if __name__ == "__main__":
    unittest.main()
