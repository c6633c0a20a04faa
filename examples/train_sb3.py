#!/usr/bin/env python3
"""Trains an agent of stable-baselines3 on a simulated path, and judges it beside the rules.

    pip install './crates/python[gym]' stable-baselines3
    examples/train_sb3.py [SCENARIO.toml]

Half a minute of one core. Any library that speaks Gymnasium can take its place.
"""

import sys
from pathlib import Path

import numpy as np
import tidegate
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

DEFAULT = Path(__file__).parent.parent / "scenarios" / "automdt-read.toml"


def train(scenario, seed=1):
    """The ten lines: an agent, and a path to learn on."""
    torch.set_num_threads(1)  # more of them only hinder one another with so small a network
    path = {"scenario": scenario, "epochs": 10}
    envs = make_vec_env(tidegate.TransferEnv, n_envs=16, seed=seed, env_kwargs=path)
    agent = PPO(
        "MlpPolicy",
        envs,
        n_steps=20,
        batch_size=80,
        n_epochs=4,
        gamma=0.5,
        learning_rate=3e-4,
        policy_kwargs={"log_std_init": -1.0},
        seed=seed,
        device="cpu",
    )
    return agent.learn(total_timesteps=60_000)


def judge(scenario, agent, seed=1000, episodes=32):
    """Mean goodput relative to the best and mean workers, the deterministic agent from random starts."""
    envs = tidegate.TransferVectorEnv(scenario, num_envs=episodes, epochs=30)
    seen, _ = envs.reset(seed=seed)
    shares, workers = [], []
    for _ in range(30):
        actions, _ = agent.predict(seen, deterministic=True)
        seen, _, _, _, info = envs.step(actions)
        shares.append(info["goodput_bps"] / info["best_bps"])
        workers.append(info["concurrency"])
    return np.mean(shares), np.mean(workers, axis=(0, 1))


def main():
    scenario = tidegate.Scenario.from_file(sys.argv[1] if len(sys.argv) > 1 else DEFAULT)
    agent = train(scenario)
    share, workers = judge(scenario, agent)
    best = scenario.oracle()
    print(f"{scenario.name}: the best is {best.goodput_bps / 1e9:.2f} Gbit/s with {tuple(best.setpoint)} workers")
    print(f"PPO       {share:4.0%} of it with {workers.round(1)} workers in the mean, 30 epochs from random starts")
    for rule in ("auto", "gradient"):
        summary = tidegate.simulate(scenario, rule, epochs=30)
        mean = np.round(list(summary["concurrency_mean"].values()), 1)
        print(f"{rule:<9} {summary['throughput_share']:4.0%} of it with {mean} workers in the mean, from its own start")


if __name__ == "__main__":
    main()
