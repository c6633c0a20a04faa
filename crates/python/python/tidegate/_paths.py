"""What the environments share: spaces, arrays, seeds."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ._core import FEATURES, INFORMATION, Paths, Scenario
from ._types import Bounds, PerStage

Actions = Literal["continuous", "discrete"]
Reward = Literal["end_to_end", "automdt", "ldm"]
Start = Literal["random"] | Iterable[int]
ScenarioLike = Scenario | str | PathLike[str]

# Throughput beyond ten times the reference is shown as ten times.
HIGH = np.array([10, 10, 10, 1, 1, 1, 1, 1, 1], dtype=np.float32)


def load(scenario: ScenarioLike) -> Scenario:
    """The scenario itself, or the one in the file of that name."""
    return scenario if isinstance(scenario, Scenario) else Scenario.from_file(scenario)


def render_mode_of(mode: str | None) -> str | None:
    """The mode itself, if it is one."""
    if mode not in (None, "ansi"):
        raise ValueError(f"render_mode must be None or 'ansi', not {mode!r}")
    return mode


def observation_space() -> spaces.Space[npt.NDArray[np.float32]]:
    """The space that `TransferEnv` describes."""
    return spaces.Box(np.zeros_like(HIGH), HIGH, dtype=np.float32)


def action_space(actions: Actions, bounds: PerStage[Bounds]) -> spaces.Box | spaces.MultiDiscrete:
    """The space that `TransferEnv` describes, within these bounds."""
    if actions == "continuous":
        return spaces.Box(-1.0, 1.0, shape=(3,), dtype=np.float32)
    return spaces.MultiDiscrete([stage.max - stage.min + 1 for stage in bounds])


def seed_of(seed: object) -> int:
    """A seed as the paths take it: a whole number from 0, of which 64 bits count."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"a seed must be a whole number of at least 0, not {seed!r}")
    return int(seed) & (2**64 - 1)


def start_of(options: dict[str, Any] | None, known: Iterable[str]) -> Start:
    """`options["start"]` of a reset; any key but those `known` is refused."""
    known = [*known, "start"]
    for key in options or {}:
        if key not in known:
            raise ValueError(f"no reset option {key!r}: there are {', '.join(known)}")
    start: Start = (options or {}).get("start", "random")
    return start


class Episodes(TypedDict):
    """How long episodes are and what they pay, as `TransferEnv` describes it."""

    epochs: int
    epoch_ms: float
    reward: Reward
    k: float
    reference_bps: float | None


class Batch:
    """Paths with the arrays that a call fills; new ones each time, so a caller may keep them."""

    def __init__(
        self,
        scenarios: Sequence[ScenarioLike],
        *,
        actions: Actions,
        start: Start,
        **episodes: Unpack[Episodes],
    ) -> None:
        self.scenarios = [load(scenario) for scenario in scenarios]
        self.paths = Paths(self.scenarios, actions=actions, start=start, **episodes)
        self.count = len(self.paths)
        self.start = start
        if actions == "discrete" and not self.paths.same_bounds():
            raise ValueError("discrete actions need the same bounds on every path: use continuous ones")

    def reset(
        self, mask: npt.NDArray[np.bool_], start: Start
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        observations, information = self._arrays()
        if isinstance(start, str) and start == "random":
            start = self.start
        self.paths.reset(mask.view(np.uint8), start, observations, information)
        return observations, information

    def step(
        self, actions: object, autoreset: str
    ) -> tuple[
        npt.NDArray[np.float32],
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        npt.NDArray[np.float64],
        list[tuple[int, list[float], list[float]]],
    ]:
        observations, information = self._arrays()
        rewards = np.empty(self.count, dtype=np.float64)
        terminated, truncated = np.empty(self.count, dtype=np.bool_), np.empty(self.count, dtype=np.bool_)
        ended = self.paths.step(
            self._actions(actions),
            autoreset,
            observations,
            rewards,
            terminated.view(np.uint8),
            truncated.view(np.uint8),
            information,
        )
        return observations, rewards, terminated, truncated, information, ended

    def _arrays(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        return (
            np.empty((self.count, FEATURES), dtype=np.float32),
            np.empty((self.count, INFORMATION), dtype=np.float64),
        )

    def _actions(self, actions: object) -> npt.NDArray[np.float64]:
        array = np.ascontiguousarray(actions, dtype=np.float64)
        if array.shape != (self.count, 3):
            raise ValueError(f"actions must have the shape ({self.count}, 3), not {array.shape}")
        return array
