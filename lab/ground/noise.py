"""How busy the machine was with other things: figures taken beside a compiler are worth less."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Times:
    """CPU seconds since the machine started, of all processors."""

    busy_s: float
    stolen_s: float

    @staticmethod
    def parse(text: str) -> "Times":
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, text.splitlines()[0].split()[1:])
        return Times((user + nice + system + irq + softirq) / TICKS, steal / TICKS)

    @staticmethod
    def now() -> "Times":
        return Times.parse(Path("/proc/stat").read_text())


def noise(before: Times, after: Times, seconds: float, own_cpu_s: float) -> dict[str, float]:
    """Processors' worth of work that was not the run's own processes (the kernel's network code is in it), and
    what the hypervisor took."""
    seconds = max(seconds, 1e-3)
    return {"other_cpus": round(max(0.0, after.busy_s - before.busy_s - own_cpu_s) / seconds, 3),
            "stolen_cpus": round((after.stolen_s - before.stolen_s) / seconds, 3),
            "load": os.getloadavg()[0]}
