"""Control rules on paths of one's own, live: builds and rules in turns, over a relay with one queue for all.

    python3 -m lab.live --path RATE:RTT[:KEY=VALUE…] [--path …] --program PATH [--program PATH …] [--rule RULE …]
                        [--seconds S] [--runs N] [--trace]

A path has its rate in Mbit/s, its round trip in ms, and of these what it needs:

    queue=MS     what the queue holds at that rate (20)
    loss=PERCENT packets lost by chance (0)
    beside=N     plain cubic flows that have the path to themselves for six seconds before (0)
    cap=MBIT     what one stream moves at most
    change=S/MBIT another rate from that second on; several with + between them

A rule is `auto`, `fixed:4` or another one, and options after it: `auto --share full`. Memory is sent to memory (`probe`), in
clear. Printed are medians: what was moved in Mbit/s, in all and from the third second on, what the others moved meanwhile and in the
two seconds before, how many streams there were in the last third, and the most. `--trace` shows the streams of every run.
"""

import argparse
import hashlib
import json
import os
import shlex
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from lab.links.background import Background, moved
from lab.links.delayed import DelayedLink
from lab.links.link import RECEIVER_ADDRESS

BEFORE_S, SETTLED_S = 6.0, 3.0


@dataclass
class Live:
    """A path, as it was typed."""

    name: str
    rate: int
    rtt: float
    queue: float = 20.0
    loss: float = 0.0
    beside: int = 0
    cap: float = 0.0
    changes: list[tuple[float, int]] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> "Live":
        rate, rtt, *more = text.split(":")
        path = cls(text, int(rate), float(rtt))
        for word in more:
            key, _, value = word.partition("=")
            if key == "change":
                steps = (step.split("/") for step in value.split("+"))
                path.changes = [(float(at), int(mbit)) for at, mbit in steps]
            elif key in ("queue", "loss", "cap"):
                setattr(path, key, float(value))
            elif key == "beside":
                path.beside = int(value)
            else:
                raise SystemExit(f"'{word}' of the path '{text}' is not known: queue, loss, beside, cap or change")
        return path

    def link(self) -> DelayedLink:
        return DelayedLink(self.rtt, self.rate, self.loss / 100, seed=7, single=True, queue_ms=self.queue)


def digest(program: str) -> str:
    return hashlib.blake2b(Path(program).read_bytes(), digest_size=4).hexdigest()


def inside(namespace: str, *words: object) -> list[str]:
    return ["ip", "netns", "exec", namespace, *map(str, words)]


def received(namespace: str) -> int:
    """Bytes that have come in."""
    seen = subprocess.run(inside(namespace, "cat", "/proc/net/dev"), check=True, capture_output=True, text=True).stdout
    return next(int(line.split()[1]) for line in seen.splitlines() if line.strip().startswith("veth0:"))


def change(link: DelayedLink, changes: Sequence[tuple[float, int]]) -> None:
    begun = time.monotonic()
    for at, mbit in changes:
        time.sleep(max(0.0, begun + at - time.monotonic()))
        link.change(mbit)


def once(path: Live, program: str, rule: Sequence[str], seconds: float) -> dict[str, object]:
    """One run: what was moved, by whom and by how many."""
    with ExitStack() as held:
        place = Path(held.enter_context(tempfile.TemporaryDirectory()))
        link = held.enter_context(path.link())
        others = held.enter_context(Background(link)) if path.beside else None
        (place / "there").mkdir()
        endpoint = held.enter_context(subprocess.Popen(
            inside(link.receiver, program, "endpoint", "--root", place / "there", "--listen", f"{RECEIVER_ADDRESS}:7000",
                   "--state", place / "endpoint", "--data-plane", "clear"),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        held.callback(endpoint.terminate)
        assert endpoint.stdout is not None
        ticket = endpoint.stdout.readline().strip()
        if others:
            others.be(0, path.beside)
            time.sleep(BEFORE_S)
        limits = ["--limit-network", f"{path.cap:g}Mbit/s"] if path.cap else []
        command = inside(link.sender, program, "probe", ticket, "--json", "--time", f"{seconds:g}s", "--data-plane", "clear",
                         "--optimizer", *rule, *limits, "--epochs", place / "epochs", "--state", place / "client")
        begun, before = time.monotonic(), received(link.receiver)
        changes = threading.Thread(target=change, args=(link, path.changes))
        changes.start()
        done = subprocess.run(command, capture_output=True, text=True)
        ended = time.monotonic()
        changes.join()
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)}: {done.stderr}")
        epochs = [json.loads(line) for line in (place / "epochs").read_text().splitlines()]
        seen: dict[str, object] = {"all": json.loads(done.stdout)["bytes"] * 8 / seconds / 1e6}
        late = [epoch for epoch in epochs if epoch["t_ms"] > SETTLED_S * 1e3]
        weight = sum(epoch["interval_ms"] for epoch in late)
        seen["later"] = sum(epoch["throughput_bps"]["network"] * epoch["interval_ms"] for epoch in late) / weight / 1e6
        if others:
            arrived = others.arrived()
            seen["theirs before"] = moved(arrived, begun - 2, begun) / 1e6
            seen["theirs"] = moved(arrived, begun + SETTLED_S, ended) / 1e6
        end = [epoch["concurrency"]["network"] for epoch in epochs if epoch["t_ms"] > 2000 * seconds / 3]
        seen["streams late"] = statistics.fmean(end) if end else 0.0
        seen["streams most"] = max(epoch["concurrency"]["network"] for epoch in epochs)
        seen["trace"] = " ".join(
            f"{epoch['t_ms'] / 1e3:.1f}:{epoch['concurrency']['network']}/{epoch['throughput_bps']['network'] / 1e6:.0f}"
            for epoch in epochs)
        seen["overall"] = (received(link.receiver) - before) * 8 / (ended - begun) / 1e6
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", action="append", required=True)
    parser.add_argument("--program", action="append", required=True)
    parser.add_argument("--rule", action="append")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--trace", action="store_true")
    asked = parser.parse_args()
    rules = [shlex.split(rule) for rule in asked.rule or ["auto"]]
    os.chdir(Path(__file__).parent.parent)
    contenders = [(program, rule) for program in asked.program for rule in rules]
    for path in map(Live.read, asked.path):
        seen: dict[int, list[dict[str, object]]] = {i: [] for i in range(len(contenders))}
        for turn in range(asked.runs):
            for i in range(len(contenders)):
                at = (i + turn) % len(contenders)
                program, rule = contenders[at]
                run = once(path, program, rule, asked.seconds)
                seen[at].append(run)
                if asked.trace:
                    print(f"  {digest(program)} {' '.join(rule)}: {run['trace']}", flush=True)
        print(f"{path.name}, {asked.seconds:g} s, n = {asked.runs}")
        for (program, rule), runs in zip(contenders, seen.values()):
            keys = [key for key in runs[0] if key != "trace"]
            medians = (f"{key} {statistics.median(float(str(run[key])) for run in runs):.1f}" for key in keys)
            each = ", ".join(f"{float(str(run['all'])):.0f}" for run in runs)
            print(f"  {digest(program)} {' '.join(rule)}: {', '.join(medians)} ({each})", flush=True)


if __name__ == "__main__":
    main()
