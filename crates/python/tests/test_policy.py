"""Policies: what is exported is what is read, the same numbers come out, and what does not fit is refused."""

import json
import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np
import tidegate

from common import needs, scenario

SEED = 7
BOUNDS = ((1, 30), (2, 16), (1, 8))
GIVEN = {"bounds": BOUNDS, "reference_bps": 1e9}


def layers_of(*sizes, seed=SEED):
    draw = np.random.default_rng(seed)
    one = lambda to, of: (draw.normal(0, 0.5, (to, of)).astype(np.float32), draw.normal(0, 0.5, to).astype(np.float32))  # noqa: E731
    return [one(to, of) for of, to in zip(sizes, sizes[1:])]


def forward(layers, state):
    """What linear layers with tanh between them answer."""
    for weight, bias in layers[:-1]:
        state = np.tanh(weight @ state + bias)
    return layers[-1][0] @ state + layers[-1][1]


def states(count, seed=SEED):
    return np.random.default_rng(seed).uniform(0, 1, (count, 9)).astype(np.float32)


class PolicyTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.file = self.directory / "policy.safetensors"

    def answers_of(self, policy, wanted):
        """Holds that `policy` answers to states what the function `wanted` does."""
        for state in states(50):
            np.testing.assert_allclose(policy.forward(state.tolist()), wanted(state), atol=1e-4, err_msg=f"seed {SEED}")


class WriterTest(PolicyTest):
    def test_what_is_written_is_read_and_the_numbers_are_the_same(self):
        layers = layers_of(9, 16, 16, 16, 3)
        made = tidegate.export_policy(
            layers, self.file, **GIVEN, start=(4, 3, 2), log_sigma=[-1, -2, -3], facts={"training.seed": str(SEED)}
        )
        read = tidegate.Policy.from_file(self.file)
        self.assertEqual((read, read.to_bytes()), (made, self.file.read_bytes()))
        self.assertEqual((read.recipe, read.inputs, read.outputs), ("gymnasium", 9, 3))
        self.assertEqual((read.bounds, read.reference_bps, read.facts), (BOUNDS, 10**9, {"training.seed": "7"}))
        self.answers_of(read, lambda state: forward(layers, state))
        self.assertEqual(tidegate.Optimizer("policy", bounds=BOUNDS, policy=self.file).start(), (4, 3, 2))

    def test_the_file_is_of_safetensors(self):
        layers = layers_of(9, 4, 3)
        tidegate.export_policy(layers, self.file, **GIVEN)
        data = self.file.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
        told = header.pop("__metadata__")
        self.assertEqual((told["format"], told["version"], told["recipe"]), ("tidegate-policy", "1", "gymnasium"))
        for name, array in (("input.weight", layers[0][0]), ("head.weight", layers[1][0]), ("head.bias", layers[1][1])):
            entry = header[f"actor.{name}"]
            begin, end = entry["data_offsets"]
            self.assertEqual((entry["dtype"], entry["shape"]), ("F32", list(array.shape)))
            np.testing.assert_array_equal(np.frombuffer(body[begin:end], "<f4").reshape(array.shape), array)
        self.assertEqual([file.name for file in self.directory.iterdir()], [self.file.name], "nothing else is left")

    def test_other_recipes_are_written_as_well(self):
        for recipe, inputs, outputs in (("fast", 8, 3), ("automdt", 8, 3), ("ldm", 4, 1)):
            policy = tidegate.export_policy(layers_of(inputs, 8, 8, outputs), self.file, recipe=recipe, **GIVEN)
            self.assertEqual((policy.recipe, policy.inputs), (recipe, inputs))
            tidegate.simulate(scenario("noisy"), "policy", epochs=3, policy=policy)

    def test_what_does_not_fit_is_refused_and_nothing_is_written(self):
        good = layers_of(9, 8, 8, 3)
        nan = [(good[0][0] * np.nan, good[0][1]), *good[1:]]
        for model, more, what in (
            (layers_of(8, 8, 3), {}, "gymnasium needs 9 inputs and 3 outputs"),
            (layers_of(9, 8, 4), {}, "gymnasium needs 9 inputs and 3 outputs"),
            (layers_of(9, 8, 16, 3), {}, "layer 2 is 16 × 8, expected 8 × 8"),
            ([good[0], good[2][::-1]], {}, "layer 2 must have weights"),
            ([(good[0][0], good[1][1][:3]), good[2]], {}, "layer 1 has 8 outputs and 3 biases"),
            (good[:1], {}, "two layers or more"),
            (nan, {}, "NaN"),
            (good, {"log_sigma": [0, 0]}, "log_sigma"),
            (good, {"recipe": "magic"}, "no recipe 'magic'"),
            (good, {"recipe": "fast"}, "fast needs 8 inputs"),
            (good, {"bounds": ((1, 2), (1, 2))}, "bounds"),
            (good, {"reference_bps": 0.0}, "reference_bps"),
            (good, {"bounds": None}, "give bounds and reference_bps"),
            (good, {"start": (0, 1, 1)}, "start.read"),
            (object(), {}, "neither an agent nor a network"),
        ):
            with self.subTest(what=what), self.assertRaises(ValueError) as caught:
                tidegate.export_policy(model, self.file, **GIVEN | more)
            self.assertIn(what, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_files_that_are_no_policies_are_refused_by_name(self):
        self.file.write_bytes(b"no policy at all")
        with self.assertRaisesRegex(ValueError, "policy.safetensors: not a safetensors file"):
            tidegate.Policy.from_file(self.file)
        self.assertRaises(FileNotFoundError, tidegate.Optimizer, "policy", policy=self.directory / "absent")
        with self.assertRaisesRegex(ValueError, "needs a policy"):
            tidegate.Optimizer("policy")
        with self.assertRaisesRegex(ValueError, "tidegate.Policy or the name"):
            tidegate.Optimizer("policy", policy=7)


class DrivingTest(PolicyTest):
    def test_a_rule_asks_for_what_the_environment_does_with_the_same_answer(self):
        path = scenario("automdt-read")
        env = tidegate.TransferEnv(path)
        policy = tidegate.export_policy(layers_of(9, 16, 3), self.file, bounds=env.bounds, reference_bps=env.reference_bps)
        rule = tidegate.Optimizer("policy", bounds=env.bounds, policy=self.file)
        asked = set()
        for seed in range(20):
            state, info = env.reset(seed=seed)
            setpoint = rule.propose(info["observation"])
            *_, info = env.step(policy.forward(state.tolist()))
            self.assertEqual(tuple(info["concurrency"]), tuple(setpoint), f"seed {seed}")
            asked.add(tuple(setpoint))
        self.assertGreater(len(asked), 5)


@needs("torch")
class TorchTest(PolicyTest):
    def test_a_network_of_torch_answers_the_same_here(self):
        import torch
        from torch import nn

        torch.manual_seed(SEED)
        network = nn.Sequential(
            nn.Sequential(nn.Linear(9, 64), nn.Tanh()), nn.Identity(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)
        )
        policy = tidegate.export_policy(network, self.file, **GIVEN)
        with torch.no_grad():
            self.answers_of(policy, lambda state: network(torch.tensor(state)).numpy())

    def test_other_layers_are_refused_by_name(self):
        from torch import nn

        for network, what in (
            (nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 3)), "layer 2 is ReLU, expected Tanh"),
            (nn.Sequential(nn.Linear(9, 8), nn.Linear(8, 3)), "layer 2 is Linear, expected Tanh"),
            (nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 3), nn.Tanh()), "ends with a linear layer"),
            (nn.Sequential(nn.Linear(9, 8, bias=False), nn.Tanh(), nn.Linear(8, 3)), "layer 1 has no bias"),
            (nn.LSTM(9, 3), "layer 1 is LSTM"),
        ):
            with self.subTest(what=what), self.assertRaisesRegex(ValueError, what):
                tidegate.export_policy(network, self.file, **GIVEN)


@needs("torch", "stable_baselines3")
class AgentTest(PolicyTest):
    def test_an_agent_drives_as_it_acts(self):
        import torch
        from stable_baselines3 import PPO

        path = scenario("automdt-read")
        agent = PPO("MlpPolicy", tidegate.TransferEnv(path, epochs=10), n_steps=32, batch_size=32, n_epochs=1, seed=SEED, device="cpu")
        agent.learn(64)
        policy = tidegate.export_policy(agent, self.file)
        self.assertEqual((policy.bounds, policy.reference_bps), (path.bounds, 10**9))
        with torch.no_grad():
            mean = lambda state: agent.policy.get_distribution(torch.tensor(state)[None]).distribution.mean[0].numpy()  # noqa: E731
            self.answers_of(policy, mean)
        rule = tidegate.Optimizer("policy", bounds=path.bounds, policy=policy)
        env = tidegate.TransferEnv(path)
        for seed in range(10):
            state, info = env.reset(seed=seed)
            setpoint = rule.propose(info["observation"])
            *_, info = env.step(agent.predict(state, deterministic=True)[0])
            self.assertEqual(tuple(info["concurrency"]), tuple(setpoint), f"seed {seed}")
        for name in ("policy:sampled",):
            tidegate.simulate(path, name, epochs=3, policy=self.file)

    def test_an_agent_of_another_kind_is_refused(self):
        from stable_baselines3 import PPO
        from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

        def agent(env, **more):
            return PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu", **more)

        env = lambda **more: tidegate.TransferEnv(scenario("automdt-read"), **more)  # noqa: E731
        relu = __import__("torch").nn.ReLU
        for model, what in (
            (agent(env(actions="discrete")), "Gaussian"),
            (agent(env(), use_sde=True), "Gaussian"),
            (agent(VecNormalize(DummyVecEnv([env]))), "VecNormalize"),
            (agent(env(), policy_kwargs={"activation_fn": relu}), "layer 2 is ReLU"),
            (agent(env(), policy_kwargs={"net_arch": [64, 32]}), "layer 2 is 32 × 64"),
            (agent(DummyVecEnv([env, lambda: env(reference_bps=5.0)])), "differ: give reference_bps"),
        ):
            with self.subTest(what=what), self.assertRaisesRegex(ValueError, what):
                tidegate.export_policy(model, self.file)
        self.assertFalse(self.file.exists())


if __name__ == "__main__":
    unittest.main()
