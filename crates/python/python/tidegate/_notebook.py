"""A transfer in a notebook: how far it is, and its curves, in the cell that began it."""

from __future__ import annotations

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

from ._curves import Moment, drawn
from ._types import PerStage
from .results import Progress

# How often the view is drawn anew, in seconds.
INTERVAL = 0.5


def is_here() -> bool:
    """Whether a notebook's kernel runs us; who has not loaded IPython is in none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class View:
    """What a cell shows of one transfer, drawn anew in place."""

    def __init__(self, title: str) -> None:
        # By its name, since it is here only in notebooks.
        display = import_module("IPython.display").display
        self._title = title
        self._began = self._drawn = time.monotonic()
        self._moments: list[Moment] = []
        self._last: Progress | None = None
        self._handle: Any = display(_Html(self._html("")), display_id=True)

    def __call__(self, seen: Progress) -> None:
        """Notes how far it is."""
        now = time.monotonic()
        workers = PerStage(*(float(n) for n in seen.concurrency))
        self._moments.append(Moment(now - self._began, workers, seen.rate_bps))
        self._last = seen
        if now - self._drawn >= INTERVAL:
            self._drawn = now
            self._handle.update(_Html(self._html("")))

    def end(self, how: str) -> None:
        """Shows how it has ended."""
        self._handle.update(_Html(self._html(how)))

    def _html(self, how: str) -> str:
        seen, total = self._last, self._last.total_bytes if self._last else None
        bar = "" if total is None else f' value="{seen.bytes if seen else 0}" max="{max(total, 1)}"'
        if how == "done" and total is None:
            bar = ' value="1" max="1"'
        said = [escape(self._title), *([escape(how)] if how else [])]
        if seen is not None:
            said.append(_size(seen.bytes) if total is None else f"{_size(seen.bytes)} of {_size(total)}")
            said.append(f"{seen.files} files" + (f", {seen.failed_files} failed" if seen.failed_files else ""))
            said += [] if how else [f"{seen.rate_bps / 1e6:.0f} Mbit/s"]
            said += [f"{seen.eta_s:.0f} s left"] if seen.eta_s is not None and not how else []
        curves = drawn(self._moments) if len(self._moments) > 1 else ""
        return f'<div><progress style="width:20em"{bar}></progress> {" · ".join(said)}</div>{curves}'


class _Html:
    """A text of HTML, as IPython shows it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "tidegate: see the notebook"


def _size(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"
