"""Jobs of GridFTP whose number of connections a rule chooses, beside fixed ones: what it costs that the program is begun
anew for each slice, near and far."""

import contextlib
import json
import math
from dataclasses import replace
from functools import cache, partial

from lab.eos.gridftp import MB, PROGRAMS
from lab.eos.jobs import Service, ended
from lab.eos.predicted import links
from lab.eos.service import stop
from lab.eos.site import judged, site_on
from lab.eos.task import Outcome, Plan, Task
from lab.ground import places
from lab.links.scenario import Scenario
from lab.runs.datasets import Dataset, generate
from lab.runs.datasets import Plan as Files
from lab.shard import LINK_S

SHARD, REPEATS, SEED = "eos-adaptive", 3, 1
# The same link without delay and with much.
NEAR_S, FAR_S = 0.0, 0.06
LINK_MBIT, CAP_MBIT = 600, 120
# Half a minute at the rate of the link, six epochs of a rule, as one file and as many.
BYTES, COUNTS = 2400 * MB, {"one file": 1, "300 files": 300}
BEST = math.ceil(LINK_MBIT / CAP_MBIT)
# FTS3's rule begins in the middle of what it may have: of so many with the best number.
MOST = 2 * (BEST - 1)
# What `-p` is by hand; then a rule that begins with as many and looks again after an hour, so that only the restarts
# differ; then rules that look.
WHOLE, SLICED = f"fixed:{BEST}", "fts3:interval=3600s"
RULES = ("auto", "aimd")
MOVERS = (WHOLE, SLICED, *RULES)


@cache
def places_of() -> dict[str, Scenario]:
    base = links()[0]
    return {name: replace(base, name=f"gridftp-{name}", network=replace(base.network, worker_bps=CAP_MBIT * 10**6),
                          link=replace(base.link, rate_bps=LINK_MBIT * 10**6, rtt_s=rtt_s))
            for name, rtt_s in (("near", NEAR_S), ("far", FAR_S))}


def files(count: int, size: int) -> Dataset:
    return generate(Files(f"adaptive-{count}", SEED, tuple((f"f{i:04}.bin", size // count) for i in range(count))),
                    places.SOURCES)


def one(scenario: Scenario, count: int, size: int, rule: str, where: None, repeat: int) -> Outcome:
    """One job of the service, from its begin to its end; what arrived is compared with the source."""
    with site_on(scenario) as way:
        source = files(count, size)
        landing = way.emptied("adaptive")
        service = Service(way, way.trial.scratch / "service", 1, "--max-streams-per-path", MOST)
        try:
            file = way.trial.scratch / "jobs.json"
            file.write_text(json.dumps([{"source": f"{source.root}/", "destination": f"{way.gridftp}{landing}/",
                                         "bytes": source.size, "optimization": False,
                                         "options": {"optimizer": rule}}]))
            with way.watched() as notes:
                service.ask("submit", file)
                job, = ended(service, [size], 0, verified=False)
            seconds = (job["ended_ms"] - job["started_ms"]) / 1000
            notes["summary"] = job["summary"]
        finally:
            stop(service.process)
        judged(source, landing)
    return Outcome(seconds, source.size, notes, "content")


def expected_s(rule: str) -> float:
    streams = BEST if rule in (WHOLE, SLICED) else BEST / 2
    return LINK_S + 8 + BYTES * 8e-6 / min(LINK_MBIT, streams * CAP_MBIT)


def row_of(place: str, kind: str) -> str:
    return f"{place}, {kind}"


def tasks() -> list[Task[None]]:
    return [Task(row_of(place, kind), rule, expected_s(rule), partial(one, scenario, count, BYTES, rule), PROGRAMS)
            for place, scenario in places_of().items() for kind, count in COUNTS.items()
            for rule in MOVERS]


PLAN = Plan(SHARD, contextlib.nullcontext, tasks(), REPEATS)
