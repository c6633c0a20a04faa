"""What a call says to the command, and what it makes of its answer: the same for those who wait and those who await."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._options import CopyOptions, EstimateOptions, GetOptions, LsOptions, PutOptions, VerifyOptions
from ._words import Place, options as said, place, places, text, texts
from .errors import UsageError
from .results import Estimate, ListedFile, RemoteFile, TransferResult

Told = list[dict[str, Any]]

# How a run tells of itself is this package's business.
_JSON, _QUIET = "--json", "--quiet"

# Options with which a command lists something, and moves nothing that a result could tell of.
_LISTS = ("dry_run", "metadata_only")


def _moving(command: str, declared: type, options: Mapping[str, Any]) -> list[str]:
    """A command that tells how a transfer ended, and its options."""
    for name in _LISTS:
        if name in options:
            raise UsageError(f"{name} is for the command: it gives a list, and not how a transfer ended", "usage")
    return [command, *said(command, declared, options), _JSON, _QUIET]


def copy(source: Place | Iterable[Place], destination: Place, options: Mapping[str, Any]) -> list[str]:
    line = _moving("copy", CopyOptions, options)
    return [*line, "--", *places("source", source), place("destination", destination)]


def verify(source: Place | Iterable[Place], destination: Place, options: Mapping[str, Any]) -> list[str]:
    line = ["verify", *said("verify", VerifyOptions, options), _JSON]
    return [*line, "--", *places("source", source), place("destination", destination)]


def _names(names: str | Iterable[str]) -> list[str]:
    named = texts("names", names)
    if "-" in named:
        raise UsageError("'-' is standard input, which is this program's own: hand over what it lists", "usage")
    return named


def get(names: str | Iterable[str], directory: Place, options: Mapping[str, Any]) -> list[str]:
    line = _moving("get", GetOptions, options)
    return [*line, f"--outdir={place('directory', directory)}", "--", *_names(names)]


def put(source: Place | Iterable[Place], destination: str, options: Mapping[str, Any]) -> list[str]:
    line = _moving("put", PutOptions, options)
    return [*line, "--", *places("source", source), text("destination", destination)]


def estimate(source: Place, destination: Place, options: Mapping[str, Any]) -> list[str]:
    line = ["estimate", *said("estimate", EstimateOptions, options), _JSON]
    return [*line, "--", place("source", source), place("destination", destination)]


def resolve(names: str | Iterable[str], options: Mapping[str, Any]) -> list[str]:
    return ["get", *said("get", GetOptions, options), _JSON, "--dry-run", "--", *_names(names)]


def ls(where: Place, options: Mapping[str, Any]) -> list[str]:
    return ["ls", *said("ls", LsOptions, options), _JSON, "--", place("place", where)]


def hash(path: Place) -> list[str]:
    return ["hash", _JSON, "--", place("path", path)]


def result(told: Told) -> TransferResult:
    return TransferResult.of_json(told[-1])


def estimated(told: Told) -> Estimate:
    return Estimate.of_json(told[-1])


def listed(told: Told) -> list[ListedFile]:
    return [ListedFile.of_json(line) for line in told]


def resolved(told: Told) -> list[RemoteFile]:
    return [RemoteFile.of_json(line) for line in told]


def hashed(told: Told) -> str:
    blake3: str = told[-1]["blake3"]
    return blake3
