"""One simulated path as a Gymnasium environment."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded

from . import _gymnasium as _gymnasium
from . import _paths
from ._core import Scenario
from ._paths import Actions, Batch, Reward, ScenarioLike, Start, seed_of, start_of
from ._types import Bounds, PerStage

_ONE = np.ones(1, dtype=np.bool_)


class TransferEnv(gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[Any]]):
    """A transfer on a simulated path: once an epoch, set how many workers read, send and write.

    **Action.** Three numbers, for read, network and write. With `actions="continuous"` (the default)
    `Box(-1, 1, (3,), float32)`: -1 is the fewest workers of the stage, 1 the most, even steps in between
    multiply the number evenly, n = min·(max/min)^((a+1)/2) rounded; values beyond are cut off. With
    `actions="discrete"` `MultiDiscrete`: the number of workers above the fewest. A stage the scenario
    lacks has one worker whatever is asked. An action that is not finite, or not in a discrete space, is
    refused with a `ValueError`, and no time passes.

    **Observation.** `Box(0, high, (9,), float32)`:

    ===  ==========================================================================  ====
    0-2  throughput of read, network, write, relative to `reference_bps`              0-10
    3-5  workers of read, network, write, relative to the most there may be           0-1
    6-7  how full the sender's and the receiver's staging is at the end of the epoch   0-1
    8    segments lost per segment sent                                               0-1
    ===  ==========================================================================  ====

    `reference_bps` is the oracle's goodput at the start unless given. What was measured, in units, is
    `info["observation"]` (a `tidegate.Observation`).

    **Reward.** `reward="end_to_end"` (the default): measured end-to-end goodput relative to
    `reference_bps`, times the mean of k⁻ⁿ over the stages that can be set; about 0 to 1. Reading into
    the staging faster than the path drains it pays nothing. `"automdt"`: that paper's sum of T/kⁿ over
    the three stages in Mbit/s, which does pay for it. `"ldm"`: T/kⁿ − 10·loss in Mbit/s, with end-to-end
    goodput and the number of streams.

    **Episode.** `reset()` lets one epoch pass at a random set-point (or at `start`, or at
    `options["start"]`), so that there is something to see. `epochs` further epochs later the episode is
    truncated; it is terminated when the scenario has a data set and all of it was moved.

    **Info.** `observation`, `concurrency` (int64, (3,)), `goodput_bps` (measured) and `best_bps` (the
    oracle's at the end of the epoch).

    Parameters
    ----------
    scenario: a `tidegate.Scenario`, or the name of a TOML file.
    epochs: steps an episode, 1 to 1000000.
    epoch_ms: simulated time of a step, 100 to 60000.
    actions: "continuous" or "discrete".
    reward: "end_to_end", "automdt" or "ldm".
    k: the utility's price of a worker, more than 1.
    start: "random", or the three numbers of workers an episode begins with.
    reference_bps: what throughput is shown relative to.
    render_mode: None or "ansi", a line of text an epoch.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]

    def __init__(
        self,
        scenario: ScenarioLike,
        *,
        epochs: int = 60,
        epoch_ms: float = 1000.0,
        actions: Actions = "continuous",
        reward: Reward = "end_to_end",
        k: float = 1.02,
        start: Start = "random",
        reference_bps: float | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._batch = Batch(
            [scenario],
            epochs=epochs,
            epoch_ms=epoch_ms,
            actions=actions,
            reward=reward,
            k=k,
            start=start,
            reference_bps=reference_bps,
        )
        self.render_mode = _paths.render_mode_of(render_mode)
        self.observation_space = _paths.observation_space()
        self.action_space = _paths.action_space(actions, self.bounds)
        self._seeded = False

    @property
    def scenario(self) -> Scenario:
        """The path."""
        return self._batch.scenarios[0]

    @property
    def bounds(self) -> PerStage[Bounds]:
        """The fewest and the most workers a stage."""
        return self.scenario.bounds

    @property
    def reference_bps(self) -> float:
        """What throughput is shown relative to, in bit/s."""
        return self._batch.paths.reference_bps(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begins an episode; `options["start"]` is its first set-point.

        A seed fixes this episode and all that follow until the next seed.
        """
        start = start_of(options, ())
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            drawn = int(self.np_random.integers(2**63)) if seed is None else seed_of(seed)
            self._batch.paths.seed(0, drawn)
            self._seeded = True
        observations, information = self._batch.reset(_ONE, start)
        return observations[0], self._info(information[0])

    def step(
        self, action: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Lets an epoch pass with the workers that `action` asks for."""
        if self._batch.paths.ended()[0]:
            raise ResetNeeded("step() without an episode: call reset() first")
        actions = np.asarray(action, dtype=np.float64)
        if actions.shape != (3,):
            raise ValueError(f"an action must have the shape (3,), not {actions.shape}")
        results = self._batch.step(actions[np.newaxis], "Disabled")
        observations, rewards, terminated, truncated, information, _ = results
        return (
            observations[0],
            float(rewards[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            self._info(information[0]),
        )

    def render(self) -> str | None:
        """The last epoch as a line of text, if `render_mode` is "ansi"."""
        return self._batch.paths.text(0) if self.render_mode == "ansi" else None

    def _info(self, information: npt.NDArray[np.float64]) -> dict[str, Any]:
        return {
            "observation": self._batch.paths.observation(0),
            "goodput_bps": float(information[0]),
            "best_bps": float(information[1]),
            "concurrency": information[2:].astype(np.int64),
        }
