"""What may go wrong, on request: too many requests, too many connections, dropped bodies, pages in place of tables."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any


def option(default: Any, what: str, **more: Any) -> Any:
    """A field that the command line can set, told of by these words."""
    return field(default=default, metadata={"help": what, **more})


@dataclass
class Faults:
    """What goes wrong, and how often. Counts are of the first requests; -1 is all of them."""

    requests_a_second: float = option(0.0, "more to the interfaces get status 429")
    connections: int = option(0, "more bodies of files at once are refused")
    busy: int = option(429, "the status they get; 0 resets their connections", choices=[0, 421, 429, 503])
    retry_after: float = option(0.0, "seconds, in refusals")
    drop_after: int = option(0, "drop bodies about there", metavar="BYTES")
    drop_share: float = option(1.0, "which share of them")
    drops: int = option(-1, "how many at most")
    ignore_ranges: bool = option(False, "always answer with the whole file")
    empty: str = option("header", "how ENA says `nothing`", choices=["header", "204", "404", "[]"])
    refuses: str = option("", "ENA answers 400 to what names it", metavar="ACCESSION")
    search_lacks: str = option("", "ENA's search does not find these, although its reports have them, or all",
                               metavar="ACCESSIONS")
    limit_in_200: int = option(0, "N times NCBI's 429 with status 200", metavar="N")
    html: int = option(0, "N times a page with status 200; -1 always", metavar="N")
    fail: int = option(0, "N times a failure; -1 always", metavar="N")
    fail_status: int = option(503, "its status")
    slow: float = option(0.0, "before each answer of an interface", metavar="SECONDS")
    connection_rate: float = option(0.0, "a second, each connection", metavar="BYTES")
    no_runinfo_header: bool = option(False, "the run table without its first line")
    lacks_column: str = option("", "ENA's tables are without it", metavar="COLUMN")
    cut: bool = option(False, "the last row of ENA's tables lacks its end")
    strict_ids: bool = option(False, "NCBI answers 400 to lists with an unknown run")
    at: str = option("", "the interface that refusals, pages, failures are of; all", choices=["ena", "eutils", "sdl"])
    seed: int = option(1, "seed of what is random in faults")
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    window: list[float] = field(default_factory=list, repr=False)
    open: int = 0
    most: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed} faults")

    def too_many_requests(self) -> bool:
        """Counts a request; whether it is one too many in the last second."""
        if not self.requests_a_second:
            return False
        with self.lock:
            now = time.monotonic()
            self.window = [moment for moment in self.window if now - moment < 1.0]
            if len(self.window) >= self.requests_a_second:
                return True
            self.window.append(now)
            return False

    def take(self, name: str) -> bool:
        """Whether the fault that is counted under `name` strikes this time."""
        with self.lock:
            left = getattr(self, name)
            if left > 0:
                setattr(self, name, left - 1)
            return left != 0

    def enter(self) -> bool:
        """Opens a body; `False` if that is one too many."""
        with self.lock:
            if self.connections and self.open >= self.connections:
                self.refused += 1
                return False
            self.open += 1
            self.most = max(self.most, self.open)
            return True

    def leave(self) -> None:
        """Closes a body."""
        with self.lock:
            self.open -= 1

    def drop_at(self) -> int | None:
        """After how many bytes this body is dropped."""
        with self.lock:
            if not self.drop_after or self.drops == 0 or self.rng.random() >= self.drop_share:
                return None
            if self.drops > 0:
                self.drops -= 1
            return int(self.drop_after * self.rng.uniform(0.5, 1.5))
