"""The program `tidegate`, in the same machine code as the package."""

import signal
import sys
from typing import NoReturn

from . import _core
from ._run import program


def main() -> NoReturn:
    """Runs the command line and exits."""
    # The program handles Ctrl-C itself, or is ended by it like any other.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if (here := program()) is not None:
        _core.program_is_at(str(here))
    sys.exit(_core.main(["tidegate", *sys.argv[1:]]))
