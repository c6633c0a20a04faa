"""A small learner, to show that the environment can be learned from."""

import unittest

import numpy as np
import tidegate

from common import scenario

SEED = 1
ELITE = 16


def worth(envs, actions):
    """The mean reward of holding each action for an episode, the first epoch left out."""
    envs.reset(seed=SEED)
    rewards = [envs.step(actions)[1] for _ in range(6)]
    return np.mean(rewards[1:], axis=0)


def cross_entropy(envs, rounds=15):
    """The cross-entropy method on three numbers: draw, keep the best, draw around them."""
    draw = np.random.default_rng(SEED)
    mean, deviation = np.zeros(3), np.ones(3)
    for _ in range(rounds):
        actions = np.clip(draw.normal(mean, deviation, size=(envs.num_envs, 3)), -1, 1)
        best = actions[np.argsort(worth(envs, actions))[-ELITE:]]
        mean, deviation = best.mean(axis=0), best.std(axis=0) + 0.01
    return mean


class LearningTest(unittest.TestCase):
    def test_the_cross_entropy_method_beats_a_fixed_set_point_and_nears_the_oracle(self):
        for name in ("automdt-read", "automdt-network", "automdt-write"):
            path = scenario(name)
            envs = tidegate.TransferVectorEnv(path, num_envs=96, epochs=6)

            def reward_of(action):
                return worth(envs, np.tile(action, (envs.num_envs, 1))).mean()

            def action_of(setpoint):
                low, high = np.array(path.bounds).T
                return 2 * np.log(setpoint / low) / np.log(high / low) - 1

            learned = cross_entropy(envs)
            # The baseline: eight workers in every stage, the best of 2, 4, 8 and 16 on these paths.
            baseline = max(reward_of(action_of(np.full(3, n))) for n in (2, 4, 8, 16))
            oracle = reward_of(action_of(np.array(path.oracle().setpoint)))
            low, high = np.array(path.bounds).T
            n = np.round(low * (high / low) ** ((np.clip(learned, -1, 1) + 1) / 2)).astype(int)
            says = f"{name}, seed {SEED}: {n} is worth {reward_of(learned):.3f}, baseline {baseline:.3f}, oracle {oracle:.3f}"
            self.assertGreater(reward_of(learned), 1.05 * baseline, says)
            self.assertGreater(reward_of(learned), 0.98 * oracle, says)


if __name__ == "__main__":
    unittest.main()
