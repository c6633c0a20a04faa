"""What transfers come to: the JSON of the command, with types."""

from __future__ import annotations

from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from ._curves import drawn, of_log
from ._types import PerStage
from .errors import ErrorKind


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a transfer is."""

    bytes: int
    """Content that is at the destination, what was there before included."""
    total_bytes: int | None
    """What will be there in the end, once everything has been listed."""
    files: int
    """Files that are done: moved, there already, or failed."""
    total_files: int | None
    """Files in all, once everything has been listed."""
    failed_files: int
    """Those that failed."""
    rate_bps: int
    """How fast content arrives, in bit/s over the last ten seconds."""
    concurrency: PerStage[int]
    """How many workers read, send and write."""
    eta_s: float | None
    """How many seconds the rest takes, if anybody can know."""


@dataclass(frozen=True, slots=True)
class Files:
    """Numbers of files."""

    total: int
    """Listed at the source."""
    ok: int
    """Moved by this call."""
    failed: int
    """Not at the destination."""
    skipped: int
    """There already, and verified."""
    refreshed: int = 0
    """Those of them that were only given another mode or time."""
    deleted: int = 0
    """Files and directories that were removed at the destination, or moved to the backup directory."""


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that did not arrive."""

    path: str
    kind: ErrorKind
    message: str
    errno: int | None = None
    """The operating system's number for it, if that of this host said so."""


@dataclass(frozen=True, slots=True)
class TransferResult:
    """How a transfer ended, with the names of `tidegate copy --json` (docs/copy.md)."""

    status: Literal["complete", "incomplete", "interrupted", "no_space", "failed"]
    verified: bool
    """Whether every file is at the destination and its content was checked."""
    files: Files
    bytes: int
    """Content that this call moved."""
    resent_bytes: int
    duration_ms: int
    goodput_bps: int
    optimizer: str
    concurrency_mean: PerStage[float]
    failures: tuple[FailedFile, ...]
    error: str | None = None
    error_kind: ErrorKind | None = None
    errno: int | None = None
    """The operating system's number for it, if that of this host said so."""
    log: str | None = None
    """The file with one line of JSON for each epoch."""
    unfinished_bytes: int = 0
    """Content that this call moved of files that are not complete: the next one goes on with it."""
    kept_bytes: int = 0
    """Content that is kept of files that are not complete, whichever call moved it."""
    unchecked: int = 0
    """Files of which no checksum was known."""
    sidecars: tuple[str, ...] = ()
    """What was written beside the files."""
    converted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What people would have been warned of; the first 1000. The logger `tidegate` has all of them as they come."""

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> TransferResult:
        """What the command printed; what a newer one says besides is left out."""
        mean = told["concurrency_mean"]
        return cls(
            **_known(cls, told)
            | {
                "files": Files(**_known(Files, told["files"])),
                "concurrency_mean": PerStage(mean["read"], mean["network"], mean["write"]),
                "failures": tuple(FailedFile(**_known(FailedFile, failure)) for failure in told["failures"]),
                "sidecars": tuple(told.get("sidecars", ())),
                "converted": tuple(told.get("converted", ())),
                "warnings": tuple(told.get("warnings", ())),
            }
        )


    def plot(self) -> Plot:
        """The workers of each stage and the rate over the transfer's time, which a notebook shows as curves.

        Raises ValueError where nothing was long enough for an epoch.
        """
        if self.log is None:
            raise ValueError("there is nothing to plot: the transfer ended before its first epoch, or nothing was moved")
        with open(self.log, encoding="utf-8") as lines:
            return Plot(drawn(of_log(lines), f"{self.optimizer}, {self.goodput_bps / 1e6:.0f} Mbit/s"))


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves, as a text of SVG."""

    svg: str

    def save(self, path: str | PathLike[str]) -> None:
        """Writes them to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.svg


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured, or remembered, at one number of streams."""

    streams: int
    throughput_bps: int
    bytes: int
    spent_ms: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many streams a path can use, how fast they are, and how long so many bytes take."""

    source: str
    destination: str
    bytes: int
    streams: int
    throughput_bps: int | None
    time_ms: int | None
    single_throughput_bps: int | None
    """What one stream carries."""
    single_time_ms: int | None
    origin: Literal["sampled", "history", "not_sampled"]
    """Whether it was measured now, was known, or is neither."""
    age_ms: int | None
    """How long it was known."""
    reason: str
    cost_bytes: int
    """What was moved to find out."""
    cost_ms: int
    pays: bool | None
    """Whether finding out and so many streams take less time than one stream."""
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    sampler: str | None = None
    model: str | None = None

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> Estimate:
        """What the command printed."""
        return cls(
            **_known(cls, told)
            | {
                "origin": told["origin"]["kind"],
                "age_ms": told["origin"].get("age_ms"),
                "samples": tuple(Sample(**_known(Sample, sample)) for sample in told["samples"]),
                "notes": tuple(told["notes"]),
            }
        )


@dataclass(frozen=True, slots=True)
class ListedFile:
    """What lies in a directory."""

    path: str
    """Relative to the directory that was listed; a file that was listed itself has its name."""
    kind: Literal["file", "directory", "link", "other"]
    """What it is; of a link what it leads to, and a link itself where that may not be reached."""
    bytes: int
    mode: int
    """Permission bits."""
    modified_s: float
    """When it was modified, in seconds since 1970."""
    link: str | None = None
    """What stands in the link, if it is one."""

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> ListedFile:
        """What the command printed."""
        return cls(**_known(cls, told))


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that `tidegate.get` would get."""

    path: str
    """Where it would be, relative to the directory."""
    urls: tuple[str, ...]
    """Where it is: mirrors of each other."""
    bytes: int | None
    """How large it is, if that is known before it is asked for."""
    checksums: dict[str, str]
    """What is known of its content, by algorithm: `md5`, `sha256` and the like."""
    meta: dict[str, str]
    """What an archive says of its run: columns of ENA's, for example."""
    group: str | None = None
    """The run that it belongs to, or the group that a list names."""

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> RemoteFile:
        """What the command printed."""
        return cls(**_known(cls, told) | {"urls": tuple(told["urls"])})


def _known(of: type, told: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(of)}
    return {name: value for name, value in told.items() if name in names}
