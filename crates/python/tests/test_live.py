"""LiveEnv: Gymnasium's checker, episodes of transfers that really run, and what is left of them: nothing."""

import tempfile
import unittest
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import tidegate
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from common import program

PATH = {"options": ["--data-plane", "clear", "--limit-network", "20Mbit/s"], "reference_bps": 1e8, "epoch_ms": 100, "max_workers": 8}


class LiveTest(unittest.TestCase):
    def make(self, *path, **more):
        env = tidegate.LiveEnv(*path, program=program(), **PATH | more)
        self.addCleanup(env.close)
        return env

    def test_the_checker_has_no_complaint(self):
        env = gymnasium.make("tidegate/Live-v0", program=program(), **PATH)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(env.unwrapped)
        env.close()

    def test_an_episode_is_a_transfer_and_ends_with_it(self):
        env = self.make(epochs=3, start=(1, 2, 1), render_mode="ansi")
        self.assertRaises(ResetNeeded, env.step, np.zeros(3))
        simulated = tidegate.TransferEnv(Path(__file__).parents[3] / "scenarios" / "noisy.toml")
        self.assertEqual((env.observation_space, env.action_space), (simulated.observation_space, simulated.action_space))
        for episode in range(2):
            state, info = env.reset(seed=episode)
            self.assertIn(state, env.observation_space)
            self.assertEqual(list(info["concurrency"]), [1, 2, 1])
            process = env._run.process
            ends = []
            for _ in range(3):
                state, reward, terminated, truncated, info = env.step([0, 1, 0])
                self.assertIn(state, env.observation_space)
                self.assertAlmostEqual(reward, info["goodput_bps"] / 1e8 * 1.02 ** -info["concurrency"][1])
                ends.append((terminated, truncated))
            self.assertEqual(ends, [(False, False)] * 2 + [(False, True)])
            self.assertEqual(info["concurrency"][1], 8)
            self.assertIn("3/3", env.render())
            self.assertIsNotNone(process.poll(), "a transfer ends with its episode")
            self.assertRaises(ResetNeeded, env.step, np.zeros(3))
        endpoint, home = env._processes._endpoint, Path(env._processes._home.name)
        self.assertIsNone(endpoint.poll(), "the other end serves all episodes")
        env.reset()
        process = env._run.process
        env.close()
        self.assertIsNotNone(process.poll())
        self.assertIsNotNone(endpoint.poll())
        self.assertFalse(home.exists())
        env.close()

    def test_discrete_actions_count_from_the_fewest(self):
        env = self.make(actions="discrete", start=(1, 1, 1))
        self.assertEqual(list(env.action_space.nvec), [1, 8, 1])
        env.reset()
        self.assertEqual(list(env.step([0, 3, 0])[4]["concurrency"]), [1, 4, 1])

    def test_a_directory_is_moved_to_its_end_and_again(self):
        with tempfile.TemporaryDirectory() as directory:
            data = Path(directory) / "data"
            data.mkdir()
            for i in range(4):
                (data / str(i)).write_bytes(bytes(1_000_000))
            env = self.make(data, start=(1, 1, 1), epochs=500)
            for _ in range(2):
                env.reset()
                moved, over = 0, False
                while not over:
                    _, _, terminated, truncated, info = env.step([-1, -1, -1])
                    over = terminated or truncated
                    moved += 1
                self.assertTrue(terminated and moved > 0, moved)
            self.assertEqual(list(Path(env._processes._home.name, "root").glob("[0-9]*")), [])

    def test_an_agent_that_takes_its_time_is_late_and_no_more(self):
        env = self.make(start=(1, 1, 1))
        env.reset()
        asked = []
        for n in range(4):
            __import__("time").sleep(0.3)
            asked.append(int(env.step([0, 1 if n == 0 else -1, 0])[4]["concurrency"][1]))
        self.assertIn(8, asked)
        self.assertEqual(asked[-1], 1)

    def test_what_cannot_be_is_refused(self):
        for arguments, kind, what in (
            ({"reference_bps": 0}, ValueError, "reference_bps"),
            ({"epochs": 0}, ValueError, "epochs"),
            ({"epoch_ms": 10}, ValueError, "epoch_ms"),
            ({"actions": "none"}, ValueError, "actions"),
            ({"start": "here"}, ValueError, "start"),
            ({"render_mode": "human"}, ValueError, "render_mode"),
            ({"program": "no-such-program"}, FileNotFoundError, "no-such-program"),
        ):
            with self.subTest(what=what), self.assertRaisesRegex(kind, what):
                tidegate.LiveEnv(**{"program": program()} | PATH | arguments)
        env = self.make(options=["--no-such-option"])
        with self.assertRaisesRegex(RuntimeError, "no-such-option"):
            env.reset()
        env = self.make("/no/such/directory")
        with self.assertRaisesRegex(RuntimeError, "/no/such/directory"):
            env.reset()
        env = self.make()
        env.reset()
        with self.assertRaisesRegex(ValueError, "not a finite number"):
            env.step([0, float("nan"), 0])
        env.step([0, 0, 0])


if __name__ == "__main__":
    unittest.main()
