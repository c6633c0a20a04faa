"""Records as a grid makes them, for tests of the pages: rates over time, and the epochs of a rule of ours."""

import unittest
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any
from unittest import mock
from xml.etree import ElementTree

from lab.ground.results import Record
from lab.shard import Page


def whole(test: unittest.TestCase, page: Page) -> None:
    """What lies beside the page is told of, and every picture can be read."""
    for name, text in page.beside.items():
        test.assertIn(f"]({name})", page.text)
        if name.endswith(".svg"):
            ElementTree.fromstring(text)


def page_of(report: ModuleType, records: Mapping[str, list[Record]]) -> Page:
    """The page of a report that knows these records, by shard, and no others."""
    with mock.patch.object(report, "known", lambda shard: records.get(shard, [])):
        page: Page = report.page()
    return page


def record(scenario: str, case: str, mover: str, repeat: int = 0, ok: bool = True, **more: Any) -> Record:
    """A run of which only that much matters, and what is told besides."""
    known: dict[str, Any] = {"level": "b", "seed": 1, "scale": 1.0, "version": "tidegate 9, build 1",
                             "cpu_seconds": 2.0, "time": "2026-01-01T00:00:00+00:00"}
    return Record(scenario, case, mover, repeat=repeat, ok=ok, **{**known, **more})


def samples(mbits: Sequence[float], streams: int) -> list[tuple[float, int, int]]:
    """One sample a second: so many Mbit/s of content in each."""
    total, made = 0.0, [(0.0, 0, 0)]
    for second, mbit in enumerate(mbits, 1):
        total += mbit * 1e6 / 8
        made.append((float(second), round(total), streams))
    return made


def epoch(second: int, workers: tuple[int, int, int], mbit: float) -> dict[str, Any]:
    stages = ("read", "network", "write")
    return {"t_ms": second * 1000, "interval_ms": 1000, "concurrency": dict(zip(stages, workers)),
            "throughput_bps": dict.fromkeys(stages, mbit * 1e6)}


def log(mbits: Sequence[float], streams: Sequence[int]) -> list[dict[str, Any]]:
    """An epoch a second, with one reader and one writer."""
    return [epoch(i, (1, n, 1), mbit) for i, (mbit, n) in enumerate(zip(mbits, streams), 1)]


def made(shard: str, case: str, mover: str, mbits: Sequence[float], repeat: int = 0, streams: int = 4,
         workers: Sequence[tuple[int, int, int]] = (), files: int = 10, size: int | None = None,
         **more: Any) -> Record:
    """A good run of as many seconds as there are rates; with workers it is one of ours and logged them."""
    bits = sum(mbits) * 1e6
    notes: dict[str, Any] = {"samples": samples(mbits, streams), "noise": {"other_cpus": 0.0}, **more}
    if workers:
        notes["epochs"] = [[epoch(i, n, mbit) for i, (n, mbit) in enumerate(zip(workers, mbits), 1)]]
    return record(shard, case, mover, repeat, files=files, bytes=size or round(bits / 8), seconds=float(len(mbits)),
                  rate_bps=bits / len(mbits), verified="content", notes=notes)
