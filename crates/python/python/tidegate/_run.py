"""Runs a command of the program in this process, and waits for it as its caller likes to wait."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from . import _notebook
from ._asked import Asked
from ._call import Call
from ._core import program_is_at
from ._values import in_keywords
from .errors import Error, ErrorKind, of_exit
from .results import Progress, TransferResult

ProgressCallback = Callable[[Progress], object]
"""Who is told of progress; what it is to be awaited for is awaited by the functions of `tidegate.aio`."""

ShownProgress = ProgressCallback | Literal[False] | None
"""Who is told of progress. Where nobody is, a notebook shows it; `False` says that it is not to."""


class Cancel(Protocol):
    """What says that nobody wants a transfer any more, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


# How often progress is told, and a signal or a cancellation heard of, in seconds.
_INTERVAL = 0.1

# How often a rule is looked for to be asked, in seconds: half of the shortest epoch is all the time that it has.
_ASKED_INTERVAL = 0.01

# The most warnings that a result tells; the logger has all of them.
MAX_WARNINGS = 1000

# What the command would tell people on standard error.
_LOG = logging.getLogger("tidegate")


# Commands that move something which can be followed.
_FOLLOWED = ("copy", "get", "put", "verify")


@contextmanager
def _viewed(call: Call, progress: ShownProgress) -> Iterator[ProgressCallback | None]:
    """Who is told of progress: the caller, or else the cell of a notebook."""
    if progress is not None and progress is not False and not callable(progress):
        raise TypeError(f"progress must be a function or False, not {progress!r}")
    if progress is not None or call.command not in _FOLLOWED or not _notebook.is_here():
        yield progress or None
        return
    view = _notebook.View(call.command)
    try:
        yield view
    except BaseException as error:
        view.end(str(error) or type(error).__name__)
        raise
    view.end("done")


def run(call: Call, progress: ShownProgress = None, cancel: Cancel | None = None) -> list[dict[str, Any]]:
    """Runs a command to its end. Callbacks are called, and signals handled, by the thread that waits."""
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise TypeError(f"cancel must have is_set, as a threading.Event has, which {type(cancel).__name__} has not")
    with _viewed(call, progress) as told, _Running(call) as running:
        try:
            while not running.run.wait(running.pause):
                if running.is_due():
                    _tell(told, running.progress())
                    if cancel is not None and cancel.is_set():
                        running.run.interrupt()
        except BaseException:
            # Ctrl-C, or a callback's own exception: what is under way is brought to an end that can be gone on from.
            running.run.interrupt()
            while not running.run.wait(_INTERVAL):
                pass
            raise
        ended = running.ended()
        _tell(told, running.progress())
        return ended


def _tell(progress: ProgressCallback | None, seen: Progress | None) -> None:
    if progress is not None and seen is not None and inspect.isawaitable(answer := progress(seen)):
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError("progress is to be awaited, which only the functions of tidegate.aio do")


async def run_async(call: Call, progress: ShownProgress = None) -> list[dict[str, Any]]:
    """The same without a thread that waits: cancelling the task stops it, and waits until it has stopped."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def end() -> None:
        try:
            loop.call_soon_threadsafe(over.set)
        except RuntimeError:
            # The loop was closed, so nobody waits.
            pass

    with _viewed(call, progress) as told, _Running(call, end) as running:
        waiting = asyncio.ensure_future(over.wait())
        try:
            while not (await asyncio.wait({waiting}, timeout=running.pause))[0]:
                if running.is_due():
                    await _tell_async(told, running.progress())
        except BaseException as error:
            running.run.interrupt()
            await _stopped(over)
            if isinstance(error, asyncio.CancelledError):
                error.__cause__ = running.failure()
            raise
        ended = running.ended()
        await _tell_async(told, running.progress())
        return ended


async def _tell_async(progress: ProgressCallback | None, seen: Progress | None) -> None:
    if progress is not None and seen is not None and inspect.isawaitable(answer := progress(seen)):
        await answer


async def _stopped(over: asyncio.Event) -> None:
    """Waits until it has, also where that is cancelled again."""
    while not over.is_set():
        try:
            await over.wait()
        except asyncio.CancelledError:
            continue


class _Running:
    """A command that runs: what it says, how far it is, what it asks, and how it ends."""

    def __init__(self, call: Call, over: Callable[[], None] | None = None) -> None:
        _say_where_the_program_is()
        self._call = call
        self._asked = None if call.rule is None else Asked(call.rule)
        self._warnings: list[str] = []
        self._last = "it failed"
        self._due = 0.0
        self.pause = _INTERVAL if self._asked is None else _ASKED_INTERVAL
        self.run = call.begin(None if self._asked is None else self._asked.option, over)

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._asked is not None:
            self._asked.close()

    def is_due(self) -> bool:
        """Answers what it asks and hears what it says; whether it is time to tell how far it is."""
        if self._asked is not None:
            self._asked.answer()
        if (now := time.monotonic()) < self._due:
            return False
        self._due = now + _INTERVAL
        self._hear()
        return True

    def progress(self) -> Progress | None:
        """How far it is."""
        fields = self.run.progress()
        return None if fields is None else Progress(*fields)

    def ended(self) -> list[dict[str, Any]]:
        """What it told, once it has ended; what it ended by is raised, unless it ended well."""
        outcome = self.run.outcome()
        assert outcome is not None
        code, lines, refusal = outcome
        told: list[dict[str, Any]] = [json.loads(line) for line in lines]
        summary = told[-1] if told else {}
        # What is raised is not warned of besides.
        failed = {failure["message"] for failure in summary.get("failures", ())} | {summary.get("error")}
        last = self._hear(failed)
        if refusal is not None:
            kind, why, errno = refusal
            raise self._error(code, why, kind, errno)
        if "concurrency_mean" in summary:
            summary["warnings"] = [warning for warning in self._warnings if warning not in failed]
            if self._asked is not None:
                summary["optimizer"] = self._asked.name
        if code == 0:
            return told
        if "files" not in summary:
            raise self._error(code, summary.get("error") or last, KIND_OF_CODE.get(code, "io"), None)
        result = TransferResult.of_json(summary)
        first = result.failures[0] if result.failures else None
        message = result.error or (first.message if first else last)
        kind = result.error_kind or (first.kind if first else "io")
        raise self._error(code, message, kind, result.errno, result)

    def failure(self) -> Error | None:
        """What it ended by."""
        try:
            self.ended()
        except Error as error:
            return error
        return None

    def _error(
        self, code: int, message: str, kind: ErrorKind, errno: int | None, result: TransferResult | None = None
    ) -> Error:
        message = self._named(message)
        filename = _place_in(message, kind, self._call.places)
        if kind == "usage":
            message = in_keywords(message, self._call.declared)
        return of_exit(code, message, kind, errno, filename, result)

    def _hear(self, known: Collection[str | None] = ()) -> str:
        """Passes on what it said since the last time, but for what is `known`; what it said last."""
        for message in map(self._named, self.run.messages()):
            self._last = message
            if message not in known:
                _LOG.warning("%s", message)
                self._warnings += [message][: MAX_WARNINGS - len(self._warnings)]
        return self._last

    def _named(self, message: str) -> str:
        return message if self._asked is None else self._asked.named(message)


def _place_in(message: str, kind: ErrorKind, places: list[str]) -> str | None:
    """The place of a call that a message is about, without what is secret in it."""
    named = [one for one in places if any(_names(spelt, message) for spelt in (one, *_spelt_out(one)))]
    if not named and kind == "not_found" and len(places) <= 2:
        named = places[:1]
    if not named and kind == "no_space":
        named = places[-1:]
    place = max(named, key=len, default=None)
    return None if place is None else _SECRET.sub(r"\1", place).partition("?")[0] if "://" in place else place


def _names(place: str, message: str) -> bool:
    return re.search(rf"(?<!\S){re.escape(place)}(?![^\s:,;'])", message) is not None


def _spelt_out(place: str) -> list[str]:
    """A path of this host as the command may have it in a message: from the root on, without links."""
    if ":" in place.partition("/")[0]:
        return []
    whole = os.path.realpath(place)
    return [whole, f"{whole.rstrip('/')}/"]


# A ticket, or a name and a password.
_SECRET = re.compile(r"^([a-z0-9+.-]+://)[^/@]*@")

# What an error is of that says no more than its exit code.
KIND_OF_CODE: dict[int, ErrorKind] = {2: "usage", 3: "not_found", 4: "no_space", 5: "denied", 130: "interrupted"}


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
