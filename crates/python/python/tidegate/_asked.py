"""A rule of this process that decides for a running transfer: it is asked by way of a bridge, which that runs as its rule."""

from __future__ import annotations

import json
import shlex
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ._core import Observation, Optimizer
from ._told import bounds_of, observation_of
from ._types import Bounds, PerStage
from ._values import three

Rule = Callable[[Observation, PerStage[Bounds]], Iterable[int]]
"""What decides: an epoch and the bounds in, workers of read, network and write out."""

# How much of its name a rule's messages begin with.
_MAX_NAME = 60


def answer(rule: Any, line: str | bytes) -> str:
    """What `rule`, a function or an object with `propose`, decides upon a line that it is told."""
    message = json.loads(line)
    bounds = bounds_of(message)
    start = getattr(rule, "start", None)
    if message["type"] == "epoch":
        setpoint = getattr(rule, "propose", rule)(observation_of(message), bounds)
    elif isinstance(rule, Optimizer):
        # It has bounds of its own, and knows no host.
        setpoint = [min(max(n, stage.min), stage.max) for n, stage in zip(rule.start(), bounds, strict=True)]
    elif start is not None:
        setpoint = start(bounds, message["host"])
    else:
        setpoint = [stage.min for stage in bounds]
    # Numbers of other libraries are numbers, too; fractions are not.
    return json.dumps({"setpoint": three("the rule's answer", setpoint)})


def is_rule(value: object) -> bool:
    """Whether it decides itself, and is no name of something that does."""
    return callable(value) or hasattr(value, "propose")


class Asked:
    """A rule, and the transfer that asks it; a class is made an object first."""

    def __init__(self, rule: Any) -> None:
        self.name = str(getattr(rule, "__name__", type(rule).__name__))
        self._rule = rule() if isinstance(rule, type) else rule
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.set_inheritable(True)
        self._rest = b""
        bridge = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_bridge.py")), str(self._theirs.fileno())]
        self.option = f"exec:{shlex.join(bridge)}"

    def answer(self) -> None:
        """Answers what it was asked since the last time; what the rule raises is raised."""
        while True:
            try:
                told = self._ours.recv(1 << 16)
            except BlockingIOError:
                return
            *lines, self._rest = (self._rest + told).split(b"\n")
            for line in lines:
                self._ours.sendall(answer(self._rule, line).encode() + b"\n")
            if not told:
                return

    def named(self, message: str) -> str:
        """A message, in which the rule has its own name."""
        return message.replace(self.option, self.name).replace(f"{self.option[:_MAX_NAME]}…", self.name)

    def close(self) -> None:
        """Nothing asks it any more."""
        self._ours.close()
        self._theirs.close()
