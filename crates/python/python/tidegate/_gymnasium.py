"""Registers the environments with Gymnasium, once."""

import gymnasium

gymnasium.register(
    id="tidegate/Transfer-v0",
    entry_point="tidegate.env:TransferEnv",
    vector_entry_point="tidegate.vector_env:TransferVectorEnv",
)

gymnasium.register(id="tidegate/Live-v0", entry_point="tidegate.live_env:LiveEnv", nondeterministic=True)
