"""What a running `tidegate` tells a rule: lines of JSON, as docs/own-rule.md describes them."""

from typing import Any, TypeVar

from ._core import Observation
from ._types import Bounds, CpuLoad, Ends, PerStage, Streams

T = TypeVar("T")


def _stages(told: dict[str, T]) -> PerStage[T]:
    return PerStage(told["read"], told["network"], told["write"])


def _ends(told: dict[str, T]) -> Ends[T]:
    return Ends(told["sender"], told["receiver"])


def _cpu(told: dict[str, Any]) -> Ends[CpuLoad | None]:
    return Ends(*(CpuLoad(load["ours"], load["idle"]) if load else None for load in _ends(told)))


def bounds_of(told: dict[str, Any]) -> PerStage[Bounds]:
    """The fewest and the most workers a stage, of any line."""
    return PerStage(*(Bounds(stage["min"], stage["max"]) for stage in _stages(told["bounds"])))


def observation_of(told: dict[str, Any]) -> Observation:
    """What an epoch showed; of a line of the type "epoch"."""
    capacity = _ends(told["staging_capacity_bytes"])
    free = _ends(told["staging_free_bytes"])
    return Observation(
        concurrency=[max(n, 1) for n in _stages(told["concurrency"])],
        throughput_bps=_stages(told["throughput_bps"]),
        # The two ends of a live path are looked at one after the other.
        staging_free_bytes=[min(pair) for pair in zip(free, capacity, strict=True)],
        staging_capacity_bytes=capacity,
        at_ms=told["t_ms"],
        interval_ms=told["interval_ms"],
        loss=told["loss"],
        rtt_us=told["rtt_us"],
        remaining_bytes=told["remaining_bytes"],
        remaining_files=told["remaining_files"],
        standard_error=_stages(told["standard_error"]) if "standard_error" in told else None,
        waited=_stages(told["waited"]) if "waited" in told else None,
        draining=_stages(told["draining"]) if "draining" in told else None,
        streams=Streams(**told["streams"]) if told.get("streams") else None,
        cpu=_cpu(told["cpu"]) if "cpu" in told else None,
    )
