"""Runs a command of the program in this process, and waits for it as its caller likes to wait."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from . import _notebook
from ._core import Run, program_is_at
from .errors import ErrorKind, of_exit
from .results import Progress, TransferResult

ProgressCallback = Callable[[Progress], object]

ShownProgress = ProgressCallback | Literal[False] | None
"""Who is told of progress. Where nobody is, a notebook shows it; `False` says that it is not to."""


class Cancel(Protocol):
    """What says that nobody wants a transfer any more, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


# How often progress is told, and a signal or a cancellation heard of, in seconds.
_INTERVAL = 0.1

# The most warnings that a result tells; the logger has all of them.
MAX_WARNINGS = 1000

# What the command would tell people on standard error.
_LOG = logging.getLogger("tidegate")


# Commands that move something which can be followed.
_FOLLOWED = ("copy", "get", "put", "verify")


@contextmanager
def _viewed(said: list[str], progress: ShownProgress) -> Iterator[ProgressCallback | None]:
    """Who is told of progress: the caller, or else the cell of a notebook."""
    if progress is not None and progress is not False and not callable(progress):
        raise TypeError(f"progress must be a function or False, not {progress!r}")
    if progress is not None or said[0] not in _FOLLOWED or not _notebook.is_here():
        yield progress or None
        return
    view = _notebook.View(said[0])
    try:
        yield view
    except BaseException as error:
        view.end(str(error) or type(error).__name__)
        raise
    view.end("done")


def run(said: list[str], progress: ShownProgress = None, cancel: Cancel | None = None) -> list[dict[str, Any]]:
    """Runs a command to its end. Callbacks are called, and signals handled, by the thread that waits."""
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise TypeError(f"cancel must have is_set, as a threading.Event has, which {type(cancel).__name__} has not")
    with _viewed(said, progress) as told:
        return _wait(said, told, cancel)


def _wait(said: list[str], progress: ProgressCallback | None, cancel: Cancel | None) -> list[dict[str, Any]]:
    running, warnings = _begin(said, None), list[str]()
    try:
        while not running.wait(_INTERVAL):
            _tell(running, progress, warnings)
            if cancel is not None and cancel.is_set():
                running.interrupt()
    except BaseException:
        # Ctrl-C, or a callback's own exception: what is under way is brought to an end that can be gone on from.
        running.interrupt()
        while not running.wait(_INTERVAL):
            pass
        raise
    return _end(running, progress, warnings)


async def run_async(said: list[str], progress: ShownProgress = None) -> list[dict[str, Any]]:
    """The same without a thread that waits: cancelling the task stops it, and waits until it has stopped."""
    with _viewed(said, progress) as told:
        return await _await(said, told)


async def _await(said: list[str], progress: ProgressCallback | None) -> list[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def ended() -> None:
        try:
            loop.call_soon_threadsafe(over.set)
        except RuntimeError:
            # The loop was closed, so nobody waits.
            pass

    running, warnings = _begin(said, ended), list[str]()
    try:
        waiting = asyncio.ensure_future(over.wait())
        while not (await asyncio.wait({waiting}, timeout=_INTERVAL))[0]:
            _tell(running, progress, warnings)
    except BaseException:
        running.interrupt()
        await over.wait()
        raise
    return _end(running, progress, warnings)


def _begin(said: list[str], over: Callable[[], None] | None) -> Run:
    _say_where_the_program_is()
    return Run(said, over)


def _hear(running: Run, warnings: list[str]) -> list[str]:
    """What it said since the last time."""
    said = running.messages()
    for message in said:
        _LOG.warning("%s", message)
    warnings += said[: MAX_WARNINGS - len(warnings)]
    return said


def _tell(running: Run, progress: ProgressCallback | None, warnings: list[str]) -> None:
    _hear(running, warnings)
    if progress is not None and (fields := running.progress()) is not None:
        progress(Progress(*fields))


def _end(running: Run, progress: ProgressCallback | None, warnings: list[str]) -> list[dict[str, Any]]:
    outcome = running.outcome()
    assert outcome is not None
    code, lines, refusal = outcome
    told: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if refusal is not None:
        raise of_exit(code, refusal[1], refusal[0])
    if code == 0:
        _tell(running, progress, warnings)
    said = _hear(running, warnings)
    summary = told[-1] if told else {}
    if "concurrency_mean" in summary:
        failed = {failure["message"] for failure in summary["failures"]} | {summary.get("error")}
        summary["warnings"] = [warning for warning in warnings if warning not in failed]
    if code == 0:
        return told
    if "files" in summary:
        result = TransferResult.of_json(summary)
        first = result.failures[0] if result.failures else None
        message = result.error or (first.message if first else said[-1] if said else "it failed")
        raise of_exit(code, message, result.error_kind or (first.kind if first else "io"), result)
    message = summary.get("error") or (said[-1] if said else "it failed")
    raise of_exit(code, message, _KIND_OF_CODE.get(code, "io"))


# What an error is of that says no more than its exit code.
_KIND_OF_CODE: dict[int, ErrorKind] = {2: "usage", 3: "not_found", 4: "no_space", 5: "denied", 130: "interrupted"}


@cache
def _say_where_the_program_is() -> None:
    """Some commands measure by programs of their own; here this process's is the interpreter."""
    found = program()
    if found is not None:
        program_is_at(str(found))


def program() -> Path | None:
    """Where the program `tidegate` of this package is."""
    called = Path(sys.argv[0]) if sys.argv else Path()
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    places = [called] if called.name == "tidegate" else []
    places += [Path(sysconfig.get_path("scripts", scheme)) / "tidegate" for scheme in schemes]
    found = next((place.resolve() for place in places if place.is_file() and os.access(place, os.X_OK)), None)
    on_path = shutil.which("tidegate")
    return found or (Path(on_path) if on_path else None)
