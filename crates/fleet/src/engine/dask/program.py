"""Has workers of a Dask cluster run movers, a mover a task, and tells how many of them run.

Any mover takes any shard, so a worker that is lost or late holds nothing up. The token is in a file that only its owner
can read: nothing secret is in this program or in what the scheduler sees.
"""

import json
import os
import signal
import subprocess
import sys
import time

from distributed import Client, Event, get_client

# How often it is looked whether something has changed.
GLANCE_S = 1.0
# How long a mover that left work behind waits before it is started again.
REST_S = 5.0
# How long one may take to give back what it holds.
LEAVING_S = 30.0


def mover(stop, command, again):
    """Runs a mover on this worker until nothing is left for it, and says how it ended."""
    # It dies with its worker: what a lost one held is done by others.
    bound = [command[0], "with-parent", str(os.getpid()), *command]
    while True:
        process = subprocess.Popen(bound, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            if is_set(stop):
                process.terminate()
                try:
                    return process.wait(LEAVING_S)
                except subprocess.TimeoutExpired:
                    process.kill()
            time.sleep(GLANCE_S)
        if process.returncode != again or is_set(stop):
            return process.returncode
        time.sleep(REST_S)


def is_set(name):
    return Event(name, client=get_client()).is_set()


def main(scheduler, name, count, command, again, never):
    client = Client(scheduler, timeout=30)
    stop = Event(name + "-stop", client=client)
    stop.clear()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    hosts = client.scheduler_info(n_workers=-1)["workers"].values()
    # Workers that say so take one mover each; others as many as they have threads.
    resources = {"tidegate": 1} if any("tidegate" in host.get("resources", {}) for host in hosts) else None
    tasks = [client.submit(mover, name + "-stop", command, again, key=f"{name}-{i}", pure=False, resources=resources,
                           retries=3) for i in range(count)]
    told = None
    while True:
        done = [task for task in tasks if task.done()]
        ended = sum(task.status == "finished" and task.result() == 0 for task in done)
        busy = sum(len(keys) for keys in client.processing().values())
        running = min(busy, count - len(done))
        seen = {"running": running, "pending": count - len(done) - running, "ended": ended,
                "failed": len(done) - ended}
        if seen != told:
            print(json.dumps(seen), flush=True)
            told = seen
        if len(done) == count:
            break
        time.sleep(GLANCE_S)
    for task in tasks:
        if task.status != "finished":
            print(f"a worker was lost too often, or never came: {task.status}", file=sys.stderr)
        elif task.result() == never:
            print("a mover was told that it never can run so; the worker's log says why", file=sys.stderr)
    return 0 if told["failed"] == 0 else 1
