"""From a model of PyTorch to a policy file: `tidegate copy --optimizer policy --policy FILE`."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._core import Policy

Layer = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
"""Weights, outputs × inputs, and biases of a linear layer."""


def export_policy(
    model: Any,
    path: str | PathLike[str],
    *,
    bounds: Iterable[Iterable[int]] | None = None,
    reference_bps: float | None = None,
    start: Iterable[int] | None = None,
    log_sigma: Sequence[float] | None = None,
    recipe: str = "gymnasium",
    facts: dict[str, str] | None = None,
) -> Policy:
    """Writes what `model` has learned as a policy file, and returns it.

    `model` is an agent of stable-baselines3 with an actor and a critic (PPO, A2C) and the policy "MlpPolicy"; or a
    `torch.nn.Sequential`; or a list of pairs of arrays, weights (outputs × inputs) and biases. In each case layers are
    linear, with tanh between them and nothing behind the last, and all between the first and the last have one width.

    The recipe says what the network is shown and what its answer means: "gymnasium" is what `TransferEnv` and `LiveEnv`
    show with `actions="continuous"`. `bounds` and `reference_bps` are those that it was trained with; an agent whose
    environment has them need not be told. `start` is the set-point a transfer begins with, the middle unless given.

    What does not fit raises `ValueError`, and nothing is written.
    """
    critic = None
    agent = getattr(model, "policy", None)
    if hasattr(agent, "mlp_extractor"):
        layers, critic, deviations = _agent(model)
        log_sigma = deviations if log_sigma is None else log_sigma
        bounds = _of_environment(model, "bounds") if bounds is None else bounds
        reference_bps = _of_environment(model, "reference_bps") if reference_bps is None else reference_bps
    elif isinstance(model, list | tuple):
        layers = [_pair(layer) for layer in model]
    elif hasattr(model, "state_dict"):
        layers = _linear([model], "actor")
    else:
        raise ValueError(f"a {type(model).__name__} is neither an agent nor a network nor a list of layers")
    if bounds is None or reference_bps is None:
        raise ValueError("give bounds and reference_bps: the model has no environment that tells them")
    policy = Policy(
        recipe,
        layers,
        bounds=bounds,
        reference_bps=reference_bps,
        log_sigma=None if log_sigma is None else [float(value) for value in log_sigma],
        critic=critic,
        start=start,
        facts=facts,
    )
    _write(Path(path), policy.to_bytes())
    return policy


def _agent(model: Any) -> tuple[list[Layer], list[Layer], list[float]]:
    """The actor, the critic and the deviations of an agent of stable-baselines3."""
    policy = model.policy
    if getattr(model, "use_sde", False) or not hasattr(policy, "log_std"):
        raise ValueError('the actions must be Gaussian: train with actions="continuous" and without use_sde')
    if getattr(policy, "squash_output", False):
        raise ValueError("squashed actions (squash_output) cannot be exported")
    normalised = model.get_vec_normalize_env()
    if normalised is not None and normalised.norm_obs:
        raise ValueError("VecNormalize changes what the network is shown: train with norm_obs=False")
    if next(iter(policy.features_extractor.parameters()), None) is not None:
        raise ValueError('the policy must be an "MlpPolicy": its features are learned')
    extractor = policy.mlp_extractor
    actor = _linear([extractor.policy_net, policy.action_net], "actor")
    critic = _linear([extractor.value_net, policy.value_net], "critic")
    return actor, critic, policy.log_std.detach().cpu().tolist()


def _linear(modules: Iterable[Any], what: str) -> list[Layer]:
    """The linear layers of `modules` in a row, which must have tanh between them."""
    from torch import nn  # type: ignore[import-not-found, unused-ignore]

    def leaves(modules: Iterable[Any]) -> Iterable[Any]:
        for module in modules:
            if isinstance(module, nn.Sequential):
                yield from leaves(module.children())
            elif not isinstance(module, nn.Identity):
                yield module

    row = list(leaves(modules))
    for i, module in enumerate(row):
        wanted = nn.Linear if i % 2 == 0 else nn.Tanh
        if not isinstance(module, wanted):
            name = type(module).__name__
            raise ValueError(
                f"{what}: layer {i + 1} is {name}, expected {wanted.__name__}: a policy has linear layers with tanh between"
            )
    if len(row) % 2 == 0:
        raise ValueError(f"{what}: a policy ends with a linear layer, and nothing behind it")
    layers = row[::2]
    for i, layer in enumerate(layers):
        if layer.bias is None:
            raise ValueError(f"{what}: layer {2 * i + 1} has no bias")
    return [_pair((layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy())) for layer in layers]


def _pair(layer: Any) -> Layer:
    weight, bias = (np.ascontiguousarray(part, dtype=np.float32) for part in layer)
    return weight, bias


def _of_environment(model: Any, name: str) -> Any:
    """What all environments of an agent say of themselves; None if there are none, or they do not know."""
    envs = model.get_env()
    try:
        values = [] if envs is None else envs.get_attr(name)
    except AttributeError:
        return None
    if any(value != values[0] for value in values):
        raise ValueError(f"the agent's environments differ: give {name}")
    return values[0] if values else None


def _write(path: Path, data: bytes) -> None:
    """Writes a whole file or none."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
