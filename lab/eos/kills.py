"""`kill -9` of the service at random moments, under load: no job may be lost, and none may end twice."""

import contextlib
import hashlib
import random
import signal
import time
from pathlib import Path

from lab.eos.service import ENDS, endpoint, scratch, service
from lab.eos.task import Outcome, Plan, Task

ROUNDS, JOBS, SIZE, SEED = 100, 4, 3_000_000, 1
# So that a job lasts about as long as a round, and most kills meet some of them.
OPTIONS = {"limit_network": "40Mbit/s"}
# A kill comes this long after the service has acknowledged the round's jobs, in seconds.
SOONEST, LATEST = 0.0, 1.0
PATIENCE_S = 300.0


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes()).hexdigest()


def measured(where: None, repeat: int) -> Outcome:
    """Jobs copy files to an endpoint; their event logs tell how often each began and ended."""
    rng, began = random.Random(SEED), time.monotonic()
    acknowledged: dict[int, str] = {}
    with scratch() as here, endpoint(here / "root", here / "endpoint") as ticket:
        (here / "src").mkdir()
        for round_ in range(ROUNDS):
            names = [f"{round_:03}-{i}.bin" for i in range(JOBS)]
            for name in names:
                (here / "src" / name).write_bytes(rng.randbytes(SIZE))
            with service(here / "state") as serving:
                jobs = [{"source": str(here / "src" / name), "destination": f"{ticket.rstrip('/')}/in/",
                         "log": str(here / f"{name}.log"), "retries": 20, "options": OPTIONS} for name in names]
                said = serving.ask("/api/v1/jobs", jobs)
                acknowledged |= dict(zip((int(id_) for id_ in said["ids"]), names))
                time.sleep(rng.uniform(SOONEST, LATEST))
                serving.process.send_signal(signal.SIGKILL)
        with service(here / "state") as serving:
            until = time.monotonic() + PATIENCE_S
            states = {id_: "" for id_ in acknowledged}
            while set(states.values()) - ENDS and time.monotonic() < until:
                for id_, state in states.items():
                    if state not in ENDS:
                        states[id_] = serving.ask(f"/api/v1/jobs/{id_}")["state"]
                time.sleep(0.2)
        logs = {id_: (here / f"{name}.log").read_text() for id_, name in acknowledged.items()}
        wrong = [name for name in acknowledged.values() if not (here / "root" / "in" / name).exists()
                 or digest(here / "root" / "in" / name) != digest(here / "src" / name)]
    return Outcome(time.monotonic() - began, notes={
        "kills": ROUNDS, "seed": SEED, "jobs": len(acknowledged),
        "lost": sum(state != "done" for state in states.values()), "wrong": len(wrong),
        "ended_twice": sum(log.count(" DONE") > 1 for log in logs.values()),
        "begun_again": sum(log.count(" STARTED") > 1 for log in logs.values())})


PLAN = Plan("eos-kills", contextlib.nullcontext, [Task("kills", "service", 4.0 * ROUNDS, measured)], 1)
