"""Three values a stage, two values an end: tuples with names; and what a run came to."""

from typing import Generic, Literal, NamedTuple, TypedDict, TypeVar

T = TypeVar("T")

StageName = Literal["read", "network", "write"]


class PerStage(NamedTuple, Generic[T]):
    """One value a stage, always in this order."""

    read: T
    network: T
    write: T


class Ends(NamedTuple, Generic[T]):
    """One value an end of the path."""

    sender: T
    receiver: T


class Bounds(NamedTuple):
    """The fewest and the most workers of a stage, both inclusive; equal where nothing can be set."""

    min: int
    max: int


class Oracle(NamedTuple):
    """The fewest workers within 2 % of the best goodput, and that goodput in bit/s."""

    setpoint: PerStage[int]
    goodput_bps: int


class Period(TypedDict):
    """A part of a run in which the path stayed as it was."""

    from_ms: int
    until_ms: int
    optimum: dict[StageName, int]
    best_bps: int
    fair_bps: int
    concurrency_mean: dict[StageName, float]
    concurrency_ratio: dict[StageName, float | None]


class Summary(TypedDict):
    """What a run came to, with the keys of `tidegate simulate --json`."""

    optimizer: str
    epochs: int
    epoch_ms: int
    duration_ms: int
    epochs_to_95: int | None
    throughput_bps: int
    best_bps: int
    throughput_share: float
    second_half_share: float
    concurrency_mean: dict[StageName, float]
    stability: float | None
    periods: list[Period]
