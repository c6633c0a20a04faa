"""Movers by Slurm on two hosts: what is printed is what sbatch takes, what is started is followed to its end, and a tree is
moved. In the first parts movers are a script that writes down where it ran and how it was started."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.fleet import slurm
from lab.fleet.hosts import Site
from lab.fleet.site import Fleet
from lab.fleet.slurm import PARTITION
from lab.ground import places, program
from lab.ground.shell import CommandFailed, exists, run
from lab.runs.datasets import Plan, generate
from lab.runs.verify import difference

SKIPPED = 77
RATE_MBIT = 100
SERVICE = "http://10.78.0.1:7118"
TOKEN = "a-token-that-nobody-may-see"
PATIENCE_S = 60.0

MOVER = """#!/bin/sh
echo "$(hostname) $SLURM_RESTART_COUNT $*" >>"$(dirname "$0")/told"
env >>"$(dirname "$0")/environment"
sleep 1
"""


class Trial:
    """Slurm, and a command at its head."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.cluster = fleet, fleet.slurm
        cluster = self.cluster
        self.mover = cluster.scratch / "it's a mover" / "mover"
        self.mover.parent.mkdir()
        self.mover.write_text(MOVER)
        self.mover.chmod(0o755)
        self.token = cluster.scratch / "token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)

    def argv(self, *more: object) -> list[object]:
        return [places.tidegate_binary(), "movers", "--service", SERVICE, "--token-file", self.token, "--mover-path",
                self.mover, "--engine", "slurm", "--partition", PARTITION, *more]

    def told(self) -> list[str]:
        """A line for each mover so far."""
        path = self.mover.parent / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


def printed(trial: Trial) -> list[str]:
    """sbatch takes what is printed, and its tasks run on both hosts."""
    script = trial.cluster.ask(*trial.argv("--movers", 4, "--at-once", 2, "--print"))
    trial.cluster.ask("sbatch", "--test-only", text=script)
    job = trial.cluster.ask("sbatch", "--parsable", text=script).strip()
    states = trial.cluster.wait_for_end(job, PATIENCE_S)
    told = trial.told()
    shown = trial.cluster.ask("scontrol", "show", "job", job)
    failed = [] if states == ["COMPLETED"] * 4 else [f"the tasks are {states}"]
    failed += [] if {line.split()[0] for line in told} == {"n1", "n2"} else [f"not both hosts ran movers: {told}"]
    words = f"mover --service {SERVICE} --token-file {trial.token}"
    failed += [f"a mover was started as {line!r}" for line in told if not line.endswith(words)]
    return failed + (["the token is shown to others"] if TOKEN in shown + script else [])


def followed(trial: Trial) -> list[str]:
    """The command submits an array, follows it, and hands on nothing of its environment."""
    secret = "a-variable-of-the-user"
    done = subprocess.run(trial.cluster.site.head.argv(trial.argv("--movers", 2)), capture_output=True, text=True,
                          cwd=trial.cluster.scratch, timeout=PATIENCE_S,
                          env={**trial.cluster.environment, "SBATCH_EXPORT": "ALL", "SECRET": secret})
    failed = [] if done.returncode == 0 and "2 have ended" in done.stderr else [f"{done.returncode}: {done.stderr}"]
    told = trial.told()
    failed += [] if len(told) == 2 else [f"two movers were wanted: {told}"]
    environment = (trial.mover.parent / "environment").read_text()
    return failed + (["its environment went to the nodes"] if secret in environment else [])


def again(trial: Trial) -> list[str]:
    """A mover that left while there was more to do goes back into the queue."""
    trial.mover.write_text(MOVER + 'test -n "$SLURM_RESTART_COUNT" || exit 75\n')
    script = trial.cluster.ask(*trial.argv("--movers", 1, "--print"))
    job = trial.cluster.ask("sbatch", "--parsable", text=script).strip()
    trial.cluster.release(job, PATIENCE_S)
    states = trial.cluster.wait_for_end(job, PATIENCE_S)
    told = [line.split()[1] for line in trial.told()]
    return [] if states == ["COMPLETED"] and told == ["mover", "1"] else [f"{states}, started as {told}"]


def moved(trial: Trial) -> list[str]:
    """Movers on both hosts move a tree to the endpoint at the head, by one command and a service of its own."""
    plan = Plan("smoke", 1, tuple((f"d{i % 3}/f{i}", 700_000 + i) for i in range(40)))
    source = generate(plan, trial.cluster.scratch / "source")
    ended = trial.fleet.spread(source.root, 2, PATIENCE_S)
    if ended.status != 0:
        return [f"status {ended.status}: {ended.said}"]
    failed = [found] if (found := difference(source.root, trial.fleet.destination / "copy", content=True)) else []
    files = ended.summary["files"]
    return failed + ([] if files["ok"] == files["total"] == source.files else [f"the summary says {files}"])


PARTS: tuple[Callable[[Trial], list[str]], ...] = (printed, followed, again, moved)


def lacking() -> str | None:
    """Why it cannot run here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if reason := program.missing() or slurm.missing():
        return reason
    if absent := [command for command in ("ip", "tc", "unshare") if not exists(command)]:
        return f"{', '.join(absent)} not installed"
    try:
        with Site([RATE_MBIT]):
            run(["unshare", "--uts", "--mount", "true"])
    except (CommandFailed, OSError) as failure:
        return f"this machine does not let root make namespaces: {failure}"
    return None


def main() -> int:
    if reason := lacking():
        print(f"skipped: {reason}")
        return SKIPPED
    failed = []
    with tempfile.TemporaryDirectory(prefix="tidegate-fleet-") as held, \
            Fleet([RATE_MBIT] * 2, Path(held), lasting=False) as fleet:
        trial = Trial(fleet)
        for part in PARTS:
            print(f"== {part.__name__}: {part.__doc__}", flush=True)
            try:
                failed += [f"{part.__name__}: {what}" for what in part(trial)]
            except (CommandFailed, OSError, subprocess.TimeoutExpired) as failure:
                failed.append(f"{part.__name__}: {failure}; {fleet.slurm.last_words()}")
    for what in failed:
        print(f"FAILED {what}", file=sys.stderr)
    print(f"{len(failed)} failures" if failed else "Slurm starts movers")
    return 1 if failed else 0
