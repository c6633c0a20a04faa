import builtins
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ._types import Bounds, CpuLoad, Ends, Oracle, PerStage, Streams, Summary
from .errors import Error, ErrorKind

__all__ = [
    "FEATURES",
    "INFORMATION",
    "MAX_CONTENT",
    "OPTIMIZERS",
    "Connection",
    "Observation",
    "Optimizer",
    "Paths",
    "Policy",
    "Run",
    "Scenario",
    "View",
    "__version__",
    "main",
    "program_is_at",
    "simulate",
]

__version__: str
FEATURES: int
INFORMATION: int
OPTIMIZERS: list[str]

@final
class Observation:
    """What one epoch showed: the only thing a rule ever sees.

    Staging is left out where stages hand on to each other without any.
    """

    def __new__(
        cls,
        *,
        concurrency: Iterable[int],
        throughput_bps: Iterable[float],
        staging_free_bytes: Iterable[float] | None = None,
        staging_capacity_bytes: Iterable[float] | None = None,
        at_ms: float,
        interval_ms: float | None = None,
        loss: float | None = None,
        rtt_us: float | None = None,
        remaining_bytes: float | None = None,
        remaining_files: float | None = None,
        standard_error: Iterable[float] | None = None,
        waited: Iterable[float | None] | None = None,
        draining: Iterable[float] | None = None,
        streams: Streams | None = None,
        cpu: Iterable[CpuLoad | None] | None = None,
    ) -> Observation: ...
    @property
    def at_ms(self) -> float: ...
    @property
    def interval_ms(self) -> float: ...
    @property
    def concurrency(self) -> PerStage[int]: ...
    @property
    def throughput_bps(self) -> PerStage[int]: ...
    @property
    def standard_error(self) -> PerStage[float]: ...
    @property
    def waited(self) -> PerStage[float | None]: ...
    @property
    def draining(self) -> PerStage[float]: ...
    @property
    def goodput_bps(self) -> int: ...
    @property
    def staging_free_bytes(self) -> Ends[int]: ...
    @property
    def staging_capacity_bytes(self) -> Ends[int]: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def rtt_us(self) -> float | None: ...
    @property
    def streams(self) -> Streams | None: ...
    @property
    def cpu(self) -> Ends[CpuLoad | None]: ...
    @property
    def remaining_bytes(self) -> int | None: ...
    @property
    def remaining_files(self) -> int | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...

@final
class Scenario:
    """A network as data, from the text of a TOML file."""

    def __new__(cls, toml: str) -> Scenario: ...
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Scenario: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def toml(self) -> str: ...
    @property
    def bounds(self) -> PerStage[Bounds]: ...
    def oracle(self, at_ms: float | None = None) -> Oracle: ...
    def goodput_bps(self, setpoint: Iterable[int], at_ms: float | None = None) -> float: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[str]: ...

@final
class Policy:
    """A learned policy: a network of linear layers of one width with tanh between them, and what it was trained on."""

    def __new__(
        cls,
        recipe: str,
        layers: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]],
        *,
        bounds: Iterable[Iterable[int]],
        reference_bps: float,
        log_sigma: Sequence[float] | None = None,
        critic: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] | None = None,
        start: Iterable[int] | None = None,
        facts: dict[str, str] | None = None,
    ) -> Policy: ...
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Policy: ...
    def to_bytes(self) -> bytes: ...
    @property
    def recipe(self) -> str: ...
    @property
    def inputs(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def bounds(self) -> PerStage[Bounds]: ...
    @property
    def reference_bps(self) -> int: ...
    @property
    def facts(self) -> dict[str, str]: ...
    def forward(self, state: Sequence[float]) -> list[float]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Optimizer:
    """A rule by the name `--optimizer` knows it by."""

    def __new__(
        cls,
        name: str = "auto",
        *,
        bounds: Iterable[Iterable[int]] | None = None,
        seed: int = 1,
        k: float | None = None,
        b: float | None = None,
        epsilon: float | None = None,
        policy: Policy | str | PathLike[str] | None = None,
    ) -> Optimizer: ...
    @property
    def name(self) -> str: ...
    @property
    def bounds(self) -> PerStage[Bounds]: ...
    @property
    def epoch_ms(self) -> float: ...
    @property
    def utility(self) -> float | None: ...
    def start(self) -> PerStage[int]: ...
    def propose(
        self, observation: Observation, bounds: Iterable[Iterable[int]] | None = None
    ) -> PerStage[int]: ...

def simulate(
    scenario: Scenario,
    optimizer: str | Callable[[Observation, PerStage[Bounds]], Iterable[int]] | None = None,
    *,
    seed: int = 1,
    epochs: int = 60,
    epoch_ms: float | None = None,
    policy: Policy | str | PathLike[str] | None = None,
) -> Summary:
    """Runs a rule on a scenario and returns what it came to."""

@final
class Paths:
    """Simulated paths, stepped together without holding the interpreter's lock."""

    def __new__(
        cls,
        scenarios: Sequence[Scenario],
        *,
        epochs: int,
        epoch_ms: float,
        actions: str,
        reward: str,
        k: float,
        start: str | Iterable[int],
        reference_bps: float | None,
    ) -> Paths: ...
    def __len__(self) -> int: ...
    def bounds(self, index: int) -> PerStage[Bounds]: ...
    def same_bounds(self) -> bool: ...
    def reference_bps(self, index: int) -> float: ...
    def seed(self, index: int, seed: int) -> None: ...
    def observation(self, index: int) -> Observation | None: ...
    def text(self, index: int) -> str: ...
    def ended(self) -> list[bool]: ...
    def reset(
        self,
        mask: npt.NDArray[np.uint8],
        start: str | Iterable[int],
        observations: npt.NDArray[np.float32],
        information: npt.NDArray[np.float64],
    ) -> None: ...
    def step(
        self,
        actions: npt.NDArray[np.float64],
        autoreset: str,
        observations: npt.NDArray[np.float32],
        rewards: npt.NDArray[np.float64],
        terminated: npt.NDArray[np.uint8],
        truncated: npt.NDArray[np.uint8],
        information: npt.NDArray[np.float64],
    ) -> list[tuple[int, list[float], list[float]]]: ...

@final
class View:
    """How a path is seen by a learner, what its numbers ask for, and what an epoch is worth."""

    def __new__(
        cls, *, bounds: Iterable[Iterable[int]], reference_bps: float, actions: str, reward: str, k: float
    ) -> View: ...
    def state(self, observation: Observation) -> list[float]: ...
    def setpoint(self, action: Sequence[float]) -> PerStage[int]: ...
    def worth(self, observation: Observation) -> float: ...

@final
class Run:
    """A command that runs in this process, or has run; the interpreter's lock is free while it is waited for."""

    def __new__(
        cls,
        command: str,
        sources: Sequence[str],
        destination: str | None,
        options: str,
        over: Callable[[], object] | None = None,
    ) -> Run: ...
    def interrupt(self) -> None: ...
    def wait(self, seconds: float) -> bool: ...
    def messages(self) -> list[str]: ...
    def progress(
        self,
    ) -> tuple[int, int | None, int, int | None, int, int, PerStage[int], float | None] | None: ...
    def outcome(self) -> tuple[int, list[str], tuple[ErrorKind, str, int | None] | None] | None: ...

_Status = tuple[str, int, int, float, bytes, str | None]

@final
class Connection:
    """Files of a place, looked at and changed without a copy."""

    def __new__(cls, words: Sequence[str], sessions: int) -> Connection: ...
    def stat(self, path: str) -> _Status: ...
    def list(self, path: str, recursive: bool) -> tuple[_Status, builtins.list[tuple[str, _Status]], builtins.list[str]]: ...
    def read(self, wanted: Sequence[tuple[str, bytes | None, int, int]]) -> builtins.list[bytes | Error]: ...
    def hash(self, path: str) -> str: ...
    def write(self, path: str, content: bytes, new: bool = False) -> None: ...
    def rename(self, source: str, destination: str) -> None: ...
    def remove(self, files: Sequence[str], directories: Sequence[str]) -> None: ...
    def make_directory(self, path: str, parents: bool) -> None: ...

MAX_CONTENT: int

def main(words: Sequence[str]) -> int: ...
def program_is_at(path: str | PathLike[str]) -> None: ...
