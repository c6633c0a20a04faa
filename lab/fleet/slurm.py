"""Slurm on the hosts of a site: a controller at the head, a daemon on each node, no munge and no systemd."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from lab.fleet.hosts import Host, Site
from lab.ground.shell import CommandFailed, exists

PACKAGES = ("slurmctld", "slurmd", "slurm-client")
PARTITION = "dtn"
PATIENCE_S = 60.0

# Names are the hosts' alone; what needs a cluster's common secret or control groups of systemd is left away.
CONFIGURATION = """ClusterName=lab
SlurmctldHost=head({head})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout={silence_s}
KillWait=5
MinJobAge=600
UnkillableStepTimeout=10
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=5
StateSaveLocation={scratch}/state
SlurmdSpoolDir={scratch}/%n.spool
SlurmctldPidFile={scratch}/slurmctld.pid
SlurmdPidFile={scratch}/%n.pid
SlurmctldLogFile={scratch}/slurmctld.log
SlurmdLogFile={scratch}/%n.log
{nodes}
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why it cannot run here, or None."""
    if absent := [program for program in ("slurmctld", "slurmd", "sbatch", "squeue") if not exists(program)]:
        return f"{', '.join(absent)} not installed; install the packages {' '.join(PACKAGES)}"
    return None


class Slurm:
    """Context manager: the daemons live as long as the `with` block."""

    def __init__(self, site: Site, scratch: Path, silence_s: int = 10) -> None:
        self.site, self.scratch = site, scratch
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        (scratch / "state").mkdir(parents=True)
        for host in site.nodes:
            (scratch / f"{host.name}.spool").mkdir()
        nodes = "\n".join(f"NodeName={host.name} NodeAddr={host.address} CPUs=2 RealMemory=500 State=UNKNOWN"
                          for host in site.nodes)
        self.configuration = scratch / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(head=site.head.address, silence_s=silence_s,
                                                           scratch=scratch, nodes=nodes, partition=PARTITION))
        (scratch / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def __enter__(self) -> Self:
        try:
            self.start_controller()
            for host in self.site.nodes:
                self.start_node(host)
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """That of its commands and daemons."""
        return {**os.environ, "SLURM_CONF": str(self.configuration), "LC_ALL": "C"}

    @property
    def words(self) -> list[object]:
        """How `spread` is told of it."""
        return ["--engine", "slurm", "--partition", PARTITION]

    def start_controller(self) -> None:
        self.daemons["head"] = self.site.head.start("slurmctld", "-D", environment=self.environment)

    def start_node(self, host: Host) -> None:
        # It looks for control groups even where none are used.
        self.daemons[host.name] = host.start(
            "sh", "-c", f"mount -t tmpfs none /sys/fs/cgroup; exec slurmd -D -N {host.name}",
            environment=self.environment)

    def kill(self, name: str) -> None:
        """A daemon, at once; on a node everything that it began as well."""
        daemon = self.daemons.pop(name)
        for host in self.site.nodes:
            if host.name == name:
                host.kill_all()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()

    def ask(self, *command: object, text: str = "", check: bool = True) -> str:
        """What a command of a user at the head prints when it is given `text`."""
        done = subprocess.run(self.site.head.argv(command), input=text, capture_output=True, text=True,
                              env=self.environment, cwd=self.scratch)
        if check and done.returncode != 0:
            raise CommandFailed(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def wait(self) -> None:
        """Until all nodes are idle."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            states = self.ask("sinfo", "--noheader", "--Node", "--format=%T", check=False).split()
            if len(states) == len(self.site.nodes) and set(states) == {"idle"}:
                return
            time.sleep(0.1)
        raise CommandFailed(f"Slurm's nodes are not ready after {PATIENCE_S:.0f} s: {self.last_words()}")

    def states(self, job: str) -> list[str]:
        """The states of an array's tasks."""
        return self.ask("squeue", "--noheader", "--array", "--states=all", "--format=%T", "--jobs", job).split()

    def wait_for_end(self, job: str, patience_s: float) -> list[str]:
        """The states of an array's tasks once none waits or runs."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            states = self.states(job)
            if states and not set(states) & {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "REQUEUED"}:
                return states
            time.sleep(0.2)
        raise CommandFailed(f"job {job} is not over after {patience_s:.0f} s: {self.states(job)}")

    def release(self, job: str, patience_s: float) -> None:
        """Waits until a task went back into the queue, and has it begin soon: Slurm lets it rest for two minutes."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if "PENDING:BeginTime" in self.ask("squeue", "--noheader", "--array", "--format=%T:%r", "--jobs", job,
                                               check=False):
                # A node refuses what begins within the second in which it ended the task.
                self.ask("scontrol", "update", f"JobId={job}", "StartTime=now+3")
                return
            time.sleep(0.1)
        raise CommandFailed(f"no task of job {job} went back into the queue within {patience_s:.0f} s")

    def last_words(self) -> str:
        logs = sorted(self.scratch.glob("*.log"))
        lines = [f"{log.name}: {text[-1]}" for log in logs if (text := log.read_text(errors="replace").splitlines())]
        return "; ".join(lines)[-600:] or "they said nothing"

    def stop(self) -> None:
        for daemon in self.daemons.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGTERM)
        for daemon in self.daemons.values():
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()
        self.daemons.clear()

