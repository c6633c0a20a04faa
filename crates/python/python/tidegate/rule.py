"""Lets a rule that is written in Python decide for a running transfer.

    tidegate copy data dtn:/ --optimizer python:MODULE:NAME

starts `python3 -P -m tidegate.rule MODULE:NAME`. NAME is a function that is given an `Observation` and the bounds once an
epoch and returns three numbers of workers, as `tidegate.simulate` takes it; or a class with a method `propose` that
does, and if it likes a method `start` that is given the bounds and what is known of the host, a dict, and returns the
three numbers to begin with. Words behind MODULE:NAME are arguments of the class. MODULE may be the name of a file.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from ._asked import Rule, answer

__all__ = ["Rule", "load", "main", "serve"]


def serve(rule: Any, told: Iterable[str], answers: TextIO) -> None:
    """Answers each line of `told` as `rule` decides: a function, or an object with `propose`."""
    for line in told:
        print(answer(rule, line), file=answers, flush=True)


def load(name: str, words: Iterable[str] = ()) -> Any:
    """The rule `MODULE:NAME`; a class is made an object, of `words`."""
    module, _, attribute = name.rpartition(":")
    if not module or not attribute:
        raise ValueError(f"{name!r} is no MODULE:NAME")
    rule = getattr(_module(module), attribute)
    return rule(*words) if isinstance(rule, type) else rule


def _module(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Serves the rule that the command line names."""
    if len(sys.argv) < 2:
        sys.exit("usage: python3 -m tidegate.rule MODULE:NAME [ARGUMENT...]")
    # Last, so that nothing there stands for a module that is installed.
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    # What a rule prints is for people, and no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(load(sys.argv[1], sys.argv[2:]), sys.stdin, answers)


if __name__ == "__main__":
    main()
