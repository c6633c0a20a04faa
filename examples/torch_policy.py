#!/usr/bin/env python3
"""A network of PyTorch that learned from a simulated path what is best there, and then drives a copy.

pip install './crates/python[gym]' torch
examples/torch_policy.py DATA DESTINATION         (the program is that of TIDEGATE, or of PATH)
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import tidegate
import torch
from torch import nn


def learn(scenario, epochs=200):
    """A network that answers what is seen on a path with the oracle's set-point there."""
    env, low_high = tidegate.TransferEnv(scenario, start="random"), np.array(scenario.bounds).T
    states = torch.tensor(np.array([env.reset(seed=seed)[0] for seed in range(256)]))
    best = np.log(np.array(scenario.oracle().setpoint) / low_high[0]) / np.log(low_high[1] / low_high[0]) * 2 - 1
    network = nn.Sequential(nn.Linear(9, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3))
    adam = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        loss = (network(states) - torch.tensor(best, dtype=torch.float32)).square().mean()
        adam.zero_grad(), loss.backward(), adam.step()
    return network, env


def main():
    torch.manual_seed(1)
    network, env = learn(tidegate.Scenario.from_file(Path(__file__).parent.parent / "scenarios" / "automdt-read.toml"))
    tidegate.export_policy(network, "policy.safetensors", bounds=env.bounds, reference_bps=env.reference_bps)
    program = os.environ.get("TIDEGATE", "tidegate")
    return subprocess.call([program, "copy", *sys.argv[1:], "--optimizer", "policy", "--policy", "policy.safetensors"])


if __name__ == "__main__":
    sys.exit(main())
