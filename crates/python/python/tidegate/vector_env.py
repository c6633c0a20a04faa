"""Many simulated paths as one Gymnasium vector environment, stepped together in Rust."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import _paths
from ._core import Observation, Scenario
from ._paths import Actions, Batch, Reward, ScenarioLike, Start, load, seed_of, start_of

_KEYS = {"goodput_bps": 0, "best_bps": 1}


def _one_each(
    scenario: ScenarioLike | Sequence[ScenarioLike], num_envs: int | None
) -> list[ScenarioLike]:
    """A scenario for each path."""
    if num_envs is not None and (isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1):
        raise ValueError(f"num_envs must be a whole number of at least 1, not {num_envs!r}")
    if isinstance(scenario, Scenario | str | PathLike):
        return [load(scenario)] * (num_envs or 1)
    scenarios = list(scenario)
    if not scenarios or len(scenarios) != (num_envs or len(scenarios)):
        wanted = "at least one" if num_envs is None else f"num_envs={num_envs}"
        raise ValueError(f"there are {len(scenarios)} scenarios, but {wanted} must be")
    return scenarios


class TransferVectorEnv(VectorEnv[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[Any]]):
    """N transfers, each as in `TransferEnv`, that take a step in one call without the interpreter's lock.

    Path i of `reset(seed=s)` behaves exactly as a `TransferEnv` after `reset(seed=s + i)`.

    Shapes: observations float32 (N, 9); actions (N, 3); rewards float64 (N,); terminated and truncated
    bool (N,); in `info` `goodput_bps` and `best_bps` float64 (N,) and `concurrency` int64 (N, 3), each
    with the mask `_key` Gymnasium adds. `observations()` gives what was measured, in units.

    Parameters are those of `TransferEnv`, and
    ----------
    scenario: one for all paths, or a sequence of N of them. Continuous actions mean the bounds of each
        path; discrete ones need the same bounds on all.
    num_envs: N; the length of the sequence unless given.
    autoreset_mode: what happens after the end of an episode: NEXT_STEP (the next step ignores the action
        and begins a new one, with reward 0), SAME_STEP (the new one begins at once; the last observation
        is in `info["final_obs"]`), or DISABLED (`reset(options={"reset_mask": ...})` does it).
    """

    def __init__(
        self,
        scenario: ScenarioLike | Sequence[ScenarioLike],
        num_envs: int | None = None,
        *,
        epochs: int = 60,
        epoch_ms: float = 1000.0,
        actions: Actions = "continuous",
        reward: Reward = "end_to_end",
        k: float = 1.02,
        start: Start = "random",
        reference_bps: float | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        scenarios = _one_each(scenario, num_envs)
        self._mode = AutoresetMode(autoreset_mode)
        self._batch = Batch(
            scenarios,
            epochs=epochs,
            epoch_ms=epoch_ms,
            actions=actions,
            reward=reward,
            k=k,
            start=start,
            reference_bps=reference_bps,
        )
        self.num_envs = count = len(scenarios)
        self.metadata = {"render_modes": ["ansi"], "render_fps": 1, "autoreset_mode": self._mode}
        self.render_mode = _paths.render_mode_of(render_mode)
        self.single_observation_space = _paths.observation_space()
        self.single_action_space = _paths.action_space(actions, self._batch.paths.bounds(0))
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self._seeded = False

    @property
    def scenarios(self) -> list[Scenario]:
        """The paths, one each."""
        return list(self._batch.scenarios)

    def observations(self) -> list[Observation | None]:
        """What each path's last epoch showed, in units; None before the first reset."""
        return [self._batch.paths.observation(i) for i in range(self.num_envs)]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begins an episode on every path, or on those of `options["reset_mask"]` (bool, (N,)).

        `options["start"]` is the first set-point. A number as seed stands for seed, seed + 1, ...; a
        sequence has one for each path, None where its episodes shall go on as they would.
        """
        start = start_of(options, ["reset_mask"])
        mask = self._mask((options or {}).get("reset_mask"))
        super().reset(seed=seed if isinstance(seed, int | np.integer) else None)
        for i, one in enumerate(self._seeds(seed)):
            if one is not None and mask[i]:
                self._batch.paths.seed(i, one)
        self._seeded = True
        observations, information = self._batch.reset(mask, start)
        return observations, self._info(information, mask)

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[
        npt.NDArray[np.float32],
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Lets an epoch pass on every path."""
        if not self._seeded:
            raise ResetNeeded("step() before the first reset()")
        if self._mode is AutoresetMode.DISABLED and any(self._batch.paths.ended()):
            raise ResetNeeded("step() with an episode that is over: reset it, naming it in reset_mask")
        results = self._batch.step(actions, self._mode.value)
        observations, rewards, terminated, truncated, information, ended = results
        info = self._info(information, np.ones(self.num_envs, dtype=np.bool_))
        if ended:
            self._add_last(info, ended)
        return observations, rewards, terminated, truncated, info

    def render(self) -> tuple[str, ...] | None:
        """The last epoch of each path as a line of text, if `render_mode` is "ansi"."""
        if self.render_mode != "ansi":
            return None
        return tuple(self._batch.paths.text(i) for i in range(self.num_envs))

    def _mask(self, mask: object) -> npt.NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask must be an array of bool of the shape ({self.num_envs},)")
        if not mask.any():
            raise ValueError("reset_mask must name at least one path")
        return np.ascontiguousarray(mask)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            # The first episodes are seeded from the environment's own generator, later ones go on.
            drawn = [] if self._seeded else self.np_random.integers(2**63, size=self.num_envs).tolist()
            return drawn
        if isinstance(seed, Sequence):
            if len(seed) != self.num_envs:
                raise ValueError(f"there are {len(seed)} seeds for {self.num_envs} paths")
            return [None if one is None else seed_of(one) for one in seed]
        return [seed_of(seed + i) for i in range(self.num_envs)]

    def _info(
        self, information: npt.NDArray[np.float64], mask: npt.NDArray[np.bool_]
    ) -> dict[str, Any]:
        info: dict[str, Any] = {key: information[:, column].copy() for key, column in _KEYS.items()}
        info["concurrency"] = information[:, 2:].astype(np.int64)
        return info | {f"_{key}": mask.copy() for key in info}

    def _add_last(self, info: dict[str, Any], ended: list[tuple[int, list[float], list[float]]]) -> None:
        """Adds how episodes ended that have begun anew, as Gymnasium lays it out."""
        over = np.zeros(self.num_envs, dtype=np.bool_)
        states = np.full(self.num_envs, None, dtype=object)
        information = np.zeros((self.num_envs, 5), dtype=np.float64)
        for i, state, known in ended:
            over[i] = True
            states[i] = np.array(state, dtype=np.float32)
            information[i] = known
        info |= {"final_obs": states, "_final_obs": over}
        info |= {"final_info": self._info(information, over), "_final_info": over.copy()}
