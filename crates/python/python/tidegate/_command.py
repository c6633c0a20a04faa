"""The program `tidegate`, in the same machine code as the package."""

import signal
import sys
from typing import NoReturn

from . import _core
from ._run import program


def main(name: str = "tidegate") -> NoReturn:
    """Runs the command line and exits."""
    # The program handles Ctrl-C itself, or is ended by it like any other.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if (here := program()) is not None:
        _core.program_is_at(str(here))
    sys.exit(_core.main([name, *sys.argv[1:]]))


def condor_plugin() -> NoReturn:
    """The same program as HTCondor's plug-in."""
    main("tidegate-condor-plugin")
