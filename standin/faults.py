"""What may go wrong, on request: too many requests, too many connections, dropped bodies, pages in place of tables."""

import random
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Faults:
    """What goes wrong, and how often. Counts are of the first requests; -1 is all of them."""

    requests_a_second: float = 0  # more of them to the interfaces are answered with 429; 0 is no limit
    connections: int = 0  # more bodies of files at once are answered with `busy`; 0 is no limit
    busy: int = 429
    retry_after: float = 0
    drop_after: int = 0  # bytes of a body after which its connection is dropped
    drop_share: float = 1.0  # of the bodies
    drops: int = -1
    ignore_ranges: bool = False
    empty: str = "header"  # how nothing is answered: header, 204, 404 or []
    refuses: str = ""  # an accession that spoils every question to ENA that names it
    search_lacks: str = ""  # accessions that ENA's search does not find, although its reports have them; or `all`
    limit_in_200: int = 0
    html: int = 0
    fail: int = 0
    fail_status: int = 503
    slow: float = 0  # seconds before each answer of an interface
    connection_rate: float = 0  # bytes a second of each connection
    no_runinfo_header: bool = False
    cut: bool = False  # the last row of ENA's tables
    strict_ids: bool = False  # a run that NCBI does not know spoils a question by identifiers
    at: str = ""  # the one interface that refusals, pages and failures are of; empty is all
    seed: int = 1
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    window: list[float] = field(default_factory=list, repr=False)
    open: int = 0

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
                return False
            self.open += 1
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
