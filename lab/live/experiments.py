"""Control rules on live paths: AutoMDT's three, paths that change, and transfers that share one."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from lab.ground import places
from lab.ground.cgroup import Cgroup
from lab.runs.datasets import Dataset, Plan, generate, repeated
from lab.runs.epochs import epochs
from lab.links.link import Link
from lab.live.figures import moved
from lab.live.rules import Rule, trained
from lab.links.percon import PerConnectionCap
from lab.ground.quiet import quiet
from lab.ground.results import Record, append, load, set_aside_if_outdated
from lab.rivals.tidegate import Tidegate
from lab.links.routed import RoutedLink
from lab.movers.runner import Progress, alone, clean, memory
from lab.runs.setting import Setting
from lab.ground.shell import CommandFailed
from lab.ground.stats import rotated
from lab.runs.timeline import Change, Client, logged, play
from lab.runs.trial import Command, Trial

RESULTS = places.BUILD / "lab" / "live.jsonl"
NAME = "live"

MAX_WORKERS = 32
STAGING = "16MiB"
LINK_MBIT = 1000
STREAM_MBIT = 100
# Each transfer is joined or left by another after so many seconds.
STAGGER_S = 25
# From the last join to the first that leaves: the share must be fair within 30 s.
TOGETHER_S = 40
LEAVING_EVERY_S = 15
STEP_S = 25


@dataclass(frozen=True)
class Caps:
    """What one worker of each stage moves, and the workers that fill the link, as AutoMDT has them (figure 5)."""

    read: int
    network: int
    write: int
    best: tuple[int, int, int]

    @property
    def scenario(self) -> str:
        """The path as `tidegate train` reads it."""
        stages = {"read": self.read, "network": self.network, "write": self.write}
        parts = [f'[{stage}]\nworker_rate = "{mbit}Mbit/s"\nmax_workers = {MAX_WORKERS}\n'
                 for stage, mbit in stages.items()]
        return "\n".join(['name = "live"\ndescription = "a live path"\n', *parts, f'[link]\nrate = "{LINK_MBIT}Mbit/s"\nrtt = "1ms"\n',
                          f'[staging]\nsender = "{STAGING}"\nreceiver = "{STAGING}"\n'])


@dataclass(frozen=True)
class Experiment:
    """One path, who uses it when, and what happens to it meanwhile."""

    name: str
    title: str
    seconds: float
    caps: Caps | None = None
    # When each transfer joins and leaves; one that is there all the time if absent.
    visits: Sequence[tuple[float, float]] = ()
    # At these seconds the link, or what a stream may move, becomes so many Mbit/s.
    link_steps: Sequence[tuple[float, int]] = ()
    stream_steps: Sequence[tuple[float, int]] = ()
    # Which rules it is for; all if empty.
    rules: Sequence[str] = ()

    @property
    def clients(self) -> Sequence[tuple[float, float]]:
        return self.visits or ((0.0, self.seconds),)


CHANGING = ("auto", "model_based", "universal", "gradient")


def sharing(count: int) -> Experiment:
    last = (count - 1) * STAGGER_S
    # The first to come is the first to go; the last one stays alone for a while.
    visits = [(float(i * STAGGER_S), float(last + TOGETHER_S + i * LEAVING_EVERY_S)) for i in range(count)]
    return Experiment(f"share-{count}", f"{count} transfers on one link", visits[-1][1], visits=visits, rules=CHANGING)


PATHS_S = 60.0
CAPS = {"read": Caps(80, 160, 200, (13, 7, 5)), "network": Caps(205, 75, 195, (5, 14, 5)),
        "write": Caps(200, 150, 70, (5, 7, 15))}


def experiments() -> list[Experiment]:
    """All of them, in the order of the tables."""
    steps = (STEP_S, 2 * STEP_S)
    return [
        *(Experiment(name, f"{name} is slow", PATHS_S, caps=caps) for name, caps in CAPS.items()),
        Experiment("link-step", "the link steps from 1000 to 400 and back to 1000 Mbit/s", 3.0 * STEP_S,
                   link_steps=list(zip(steps, (400, LINK_MBIT))), rules=CHANGING),
        Experiment("stream-step", "a stream steps from 100 to 50 and back to 100 Mbit/s", 3.0 * STEP_S,
                   stream_steps=list(zip(steps, (50, STREAM_MBIT))), rules=CHANGING),
        *(sharing(count) for count in (2, 3, 4)),
    ]


class Transfers(Tidegate):
    """The transfers of one experiment under one rule."""

    def __init__(self, experiment: Experiment, rule: Rule, policy: Path | None = None) -> None:
        super().__init__("b")
        self.experiment = experiment
        self.rule = rule
        self.policy = policy

    def shown(self, trial: Trial, destination: str, i: int) -> list[object]:
        """The command line of transfer `i`, without where it logs."""
        common = ["--json", "--data-plane", "clear", "--max-workers", MAX_WORKERS, *self.rule.argv(self.policy)]
        caps = self.experiment.caps
        if caps is None:
            return ["probe", destination, "--time", f"{2 * self.experiment.seconds:g}s", *common]
        return ["copy", f"{trial.source.root}/", destination.rstrip("/") + f"/copied{i}/", *common,
                "--verify", "block", "--staging", STAGING, "--limit-read", f"{caps.read}Mbit/s",
                "--limit-network", f"{caps.network}Mbit/s", "--limit-write", f"{caps.write}Mbit/s",
                "--limit-link", f"{LINK_MBIT}Mbit/s"]

    def clients(self, trial: Trial) -> list[Client]:
        ticket = self.ticket(trial)
        return [Client(Command(trial.link.sender,
                               [places.tidegate_binary(), *self.shown(trial, ticket, i), "--epochs",
                                trial.scratch / f"epochs{i}.jsonl", "--state", trial.scratch / f"client{i}-state"]),
                       joins, leaves)
                for i, (joins, leaves) in enumerate(self.experiment.clients)]


def stepped(steps: Sequence[tuple[float, int]], change: Callable[[int], None]) -> list[Change]:
    return [Change(at_s, lambda mbit=mbit: change(mbit)) for at_s, mbit in steps]  # type: ignore[misc]


def one(experiment: Experiment, rule: Rule, build: str, blank: Record, source: Dataset) -> Record:
    """One run of one experiment on a path of its own."""
    clean(places.DESTINATIONS)
    clean(places.SCRATCH)
    caps = experiment.caps
    shaped = caps is None
    try:
        policy = None if caps is None else trained(rule, caps.scenario, experiment.name, build)
        transfers = Transfers(experiment, rule, policy)
        with contextlib.ExitStack() as stack:
            link = stack.enter_context(RoutedLink(LINK_MBIT) if shaped else Link())
            group = stack.enter_context(Cgroup())
            changes = stepped(experiment.link_steps, link.change)
            if shaped:
                cap = stack.enter_context(PerConnectionCap(group.path, STREAM_MBIT, follows=True))
                changes += stepped(experiment.stream_steps, cap.change)
            trial = Trial(Setting(NAME, experiment.title), link, group, source, places.DESTINATIONS, places.SCRATCH)
            transfers.prepare(trial)
            clients = transfers.clients(trial)
            with quiet():
                measured = play(trial, clients, changes)
            logs = logged(trial, len(clients))
        return replace(blank, ok=True, seconds=measured.seconds, cpu_seconds=measured.cpu_seconds,
                       rate_bps=moved_bits(logs) / measured.seconds,
                       notes={"logs": logs, "bytes_moved": int(moved_bits(logs) / 8),
                              "arguments": " ".join(map(str, rule.argv(policy)))})
    except (CommandFailed, OSError, ValueError, KeyError) as failure:
        return replace(blank, ok=False, error=f"{type(failure).__name__}: {failure}"[:500])
    finally:
        clean(places.DESTINATIONS)


def moved_bits(logs: Sequence[Sequence[Mapping[str, object]]]) -> float:
    return sum(moved(epochs(log)) for log in logs)


def data() -> Dataset:
    """Files of one chunk each, the same ones by many names: enough for a run, and memory holds them once."""
    needed = PATHS_S * LINK_MBIT * 1e6 / 8 * 1.1
    planned = Plan("live", 1, tuple((f"f{i:02}.bin", 64 << 20) for i in range(8)))
    return repeated(generate(planned, places.SOURCES), int(needed / planned.size) + 1)


def wanted(words: Sequence[str] | None, rules: Sequence[Rule]) -> list[tuple[Experiment, Rule]]:
    """What to measure; words choose among experiments, among rules, or both."""
    chosen = [(experiment, rule) for experiment in experiments() for rule in rules
              if not experiment.rules or rule.name in experiment.rules]
    names = {experiment.name for experiment, _ in chosen}
    called = {rule.name for _, rule in chosen}
    if unknown := [word for word in words or () if word not in names | called]:
        raise SystemExit(f"no experiment or rule here is called {' or '.join(unknown)}; there are "
                         f"{', '.join(e.name for e in experiments())} and {', '.join(r.name for r in rules)}")
    names, called = names & set(words or names) or names, called & set(words or called) or called
    return [(experiment, rule) for experiment, rule in chosen if experiment.name in names and rule.name in called]


def run_all(chosen: Sequence[tuple[Experiment, Rule]], repeats: int, results: Path) -> bool:
    """Measures what is not yet in the results file. True when nothing failed."""
    tidegate = Tidegate("b")
    if reason := tidegate.missing():
        raise SystemExit(reason)
    version = tidegate.version()
    build = version.rpartition(" ")[2]
    set_aside_if_outdated(results, NAME, {rule.name: version for _, rule in chosen})
    known = {record.key for record in load(results) if record.ok}
    progress = Progress(total=len(chosen) * repeats, began=time.monotonic())
    print(f"{repeats} repeats of {len(chosen)}; results go to {results}", flush=True)
    good = True
    try:
        with alone(), memory():
            source = data()
            for repeat in range(repeats):
                for experiment, rule in rotated(chosen, repeat * len(chosen) // max(repeats, 1)):
                    blank = Record(scenario=NAME, set=experiment.name, contender=rule.name, level=tidegate.level,
                                   repeat=repeat, seed=1, scale=1.0, ok=False, version=version,
                                   time=datetime.now(timezone.utc).isoformat(timespec="seconds"))
                    if blank.key in known:
                        progress.total -= 1
                        continue
                    record = one(experiment, rule, build, blank, source)
                    append(results, record)
                    progress.line(record)
                    good = good and record.ok
    except BaseException:
        print(f"stopped; the same command goes on from {results}", flush=True)
        raise
    return good
