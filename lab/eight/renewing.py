"""python3 -m lab.eight.renewing URL STATE DIRECTORY COUNT STREAMS: says to a service what so many movers of a run say.

The run has a budget of streams. Each mover holds a lease from first to last and renews it as often as movers do; it says how
many streams its transfer used in its last epoch (DIRECTORY/epochsN.jsonl), and writes how many it may use from now on
(DIRECTORY/boundsN), as movers do for their copies.
"""

import json
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.ground import places
from lab.ground.shell import run

EVERY_S = 5.0
ANSWER_S = 10.0
# No lease of a shard of that size ends, or is divided.
SHARD_BYTES = 1 << 40
# The name "0" and a NUL byte, in base64.
NAME = "MAA="


def post(url: str, token: str, path: str, body: Mapping[str, object]) -> dict[str, Any]:
    request = urllib.request.Request(f"{url}/api/v1{path}", json.dumps(body).encode(), {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
        said: dict[str, Any] = json.load(answer)
    return said


class Player:
    """One mover, as the service sees it."""

    def __init__(self, url: str, token: str, directory: Path, i: int, version: str) -> None:
        self.url, self.token, self.directory, self.i = url, token, directory, i
        answer = post(url, token, "/mover/claim", {"mover": f"mover-{i}", "version": version})
        self.lease: int = answer["lease"]
        self.set(answer["streams"])

    def set(self, streams: int) -> None:
        """Whole or not at all: the transfer reads it at any time."""
        beside = self.directory / f"bounds{self.i}.new"
        beside.write_text(f"{streams}\n")
        beside.rename(self.directory / f"bounds{self.i}")

    def last(self) -> tuple[int, int]:
        """Streams of the last whole epoch, and what they brought."""
        path = self.directory / f"epochs{self.i}.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        if not lines:
            return 0, 0
        epoch = json.loads(lines[-1])
        return epoch["concurrency"]["network"], round(epoch["throughput_bps"]["network"])

    def renew(self) -> None:
        streams, bps = self.last()
        answer = post(self.url, self.token, "/mover/renew", {"lease": self.lease, "streams": streams,
                                                              "throughput_bps": bps, "bytes": 0})
        self.set(answer["streams"])


def main() -> None:
    url, state, directory, count, streams = sys.argv[1:]
    token = (Path(state) / "service" / "token").read_text().strip()
    begun = post(url, token, "/spreads", {"sources": ["/data/"], "destination": "/archive/", "streams": int(streams)})
    shard = {"source": 0, "files": 1, "bytes": SHARD_BYTES, "names": NAME}
    post(url, token, f"/spreads/{begun['id']}/shards", {"shards": [shard] * int(count), "all": True})
    version = run([places.tidegate_binary(), "--version"]).split()[1]
    players = [Player(url, begun["token"], Path(directory), i, version) for i in range(int(count))]
    # They began at different moments, and so each renews at its own.
    due = [time.monotonic() + EVERY_S * (i + 1) / len(players) for i in range(len(players))]
    while True:
        i = min(range(len(players)), key=due.__getitem__)
        time.sleep(max(0.0, due[i] - time.monotonic()))
        players[i].renew()
        due[i] += EVERY_S


if __name__ == "__main__":
    main()
