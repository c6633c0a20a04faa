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


class CpuLoad(NamedTuple):
    """What a host's processors did in an epoch, as shares of all their time, 0 to 1."""

    ours: float
    """The share that this transfer's process had."""
    idle: float
    """The share that nobody used."""


class Streams(NamedTuple):
    """What the sender's kernel told of the network streams, over all of them; shares are of the epoch, 0 to 1."""

    count: int  # type: ignore[assignment]
    """Streams that were asked."""
    min_rtt_us: float | None
    """The shortest round trip that any of them has seen."""
    delivery_rate_bps: int
    """What the peer acknowledged last, summed; of no use while streams are limited by the application."""
    window_bytes: int
    """Their congestion windows, summed."""
    busy: float
    """The mean share of the time in which a stream had data under way."""
    receiver_limited: float
    """The mean share of the time in which the receiver's window held a stream back."""
    app_limited: float
    """The share of streams that the application did not keep busy."""
    spread: float
    """The standard deviation of what they moved by its mean."""
    model_based: int = 0
    """How many go by a model of the path, as BBR does, and not by losses."""


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
