"""What was measured, one JSON object a line; a run that was stopped goes on where it was."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Record:
    scenario: str
    set: str
    contender: str
    level: str
    repeat: int
    seed: int
    scale: float
    ok: bool
    error: str = ""
    version: str = ""
    trust: str = ""
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    rate_bps: float = 0.0
    cpu_seconds: float = 0.0
    verified: str = ""  # content, size, or nothing
    time: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, int, int, float]:
        return (self.scenario, self.set, self.contender, self.repeat, self.seed, self.scale)

    @property
    def cpu_s_per_gb(self) -> float:
        moved = self.notes.get("bytes_moved", self.bytes)
        return self.cpu_seconds / (moved / 1e9) if moved else 0.0

    @property
    def stolen_cpus(self) -> float:
        """Processors' worth of work that the hypervisor took meanwhile."""
        return float(self.notes.get("noise", {}).get("stolen_cpus", 0.0))

    @property
    def outcome(self) -> str:
        """How it went, for who waits for it."""
        if not self.ok:
            return f"FAILED {self.error}"
        parts = [f"{self.seconds:7.1f} s"]
        if self.rate_bps:
            parts.append(f"{self.rate_bps / 1e6:7.0f} Mbit/s")
        if "noise" in self.notes:
            parts.append(f"other CPUs {self.notes['noise']['other_cpus']:.2f}")
        if self.verified:
            parts.append(f"checked by {self.verified}")
        return "  ".join(parts)

    def failed(self, failure: BaseException, **more: Any) -> "Record":
        """The same run with why it came to nothing."""
        return replace(self, ok=False, error=f"{type(failure).__name__}: {failure}"[:500], **more)


def append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as out:
        out.write(json.dumps(asdict(record)) + "\n")


def set_aside_if_outdated(path: Path, scenario: str, versions: dict[str, str]) -> None:
    """Ratios need one rotation: figures of another build or release of a contender are not mixed with new ones."""
    old = [record for record in load(path) if record.scenario == scenario and record.ok
           and versions.get(record.contender, record.version) != record.version]
    if old:
        others = [record for record in load(path) if record.scenario != scenario]
        aside = path.with_name(f"{path.stem}-{scenario}-until-{int(path.stat().st_mtime)}{path.suffix}")
        path.rename(aside)
        for record in others:
            append(path, record)
        print(f"{old[0].contender} was {old[0].version} and is {versions[old[0].contender]}: starting anew, the "
              f"earlier figures are in {aside}")


def latest(records: Iterable[Record]) -> list[Record]:
    """In the order of their repeats; one that was measured again replaces the earlier."""
    return sorted({record.key: record for record in records}.values(), key=lambda record: record.repeat)


def by_cell(records: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """The latest by what they were measured on, then by contender."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in latest(records):
        found.setdefault(record.set, {}).setdefault(record.contender, []).append(record)
    return found


def builds(records: Iterable[Record]) -> str:
    """The program that was measured; if there are several, what each stands for."""
    found: dict[str, set[str]] = {}
    for record in records:
        if record.ok:
            found.setdefault(record.version, set()).add(f"{record.contender} on {record.set}")
    if len(found) == 1:
        return next(iter(found))
    return "Several builds: " + "; ".join(f"{version} ({', '.join(sorted(of))})" for version, of in found.items())


def load(path: Path) -> list[Record]:
    """All whole lines; a line cut short by a crash is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(Record(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return records
