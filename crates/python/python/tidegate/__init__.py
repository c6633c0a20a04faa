"""Tidegate for people who work on the rule itself: simulated paths, rules, and what they see.

    import tidegate

    scenario = tidegate.Scenario.from_file("scenarios/automdt-read.toml")
    env = tidegate.TransferEnv(scenario)        # a gymnasium.Env
    envs = tidegate.TransferVectorEnv(scenario, num_envs=64)
    tidegate.simulate(scenario, "auto")         # what `tidegate simulate --json` says of a rule
    tidegate.LiveEnv(reference_bps=1e9)         # the same environment on a transfer that really runs
    tidegate.export_policy(agent, "policy.safetensors")     # what was learned, for `tidegate copy --policy`

Importing it registers `tidegate/Transfer-v0` and `tidegate/Live-v0` with Gymnasium. Stages are always in the order read,
network, write; names carry their unit last.
"""

import gymnasium

from ._core import OPTIMIZERS, Observation, Optimizer, Policy, Scenario, __version__, simulate
from ._types import Bounds, CpuLoad, Ends, Oracle, PerStage, Streams, Summary
from .env import TransferEnv
from .export import export_policy
from .live_env import LiveEnv
from .vector_env import TransferVectorEnv

__all__ = [
    "OPTIMIZERS",
    "Bounds",
    "CpuLoad",
    "Ends",
    "LiveEnv",
    "Observation",
    "Optimizer",
    "Oracle",
    "PerStage",
    "Policy",
    "Scenario",
    "Streams",
    "Summary",
    "TransferEnv",
    "TransferVectorEnv",
    "__version__",
    "export_policy",
    "simulate",
]

gymnasium.register(
    id="tidegate/Transfer-v0",
    entry_point="tidegate.env:TransferEnv",
    vector_entry_point="tidegate.vector_env:TransferVectorEnv",
)

gymnasium.register(id="tidegate/Live-v0", entry_point="tidegate.live_env:LiveEnv", nondeterministic=True)
