"""Running a command and saying clearly why it failed."""

import shutil
import subprocess
from collections.abc import Sequence


class CommandFailed(Exception):
    """A command ended badly; the message holds its last words."""


def run(command: Sequence[object], check: bool = True, fine: Sequence[int] = (0,)) -> str:
    """Runs a command to its end and returns its standard output; a status that is not `fine` fails if `check`."""
    argv = [str(part) for part in command]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if check and done.returncode not in fine:
        words = (done.stderr.strip() or done.stdout.strip())[-600:]
        raise CommandFailed(f"{' '.join(argv[:6])}: status {done.returncode}: {words}")
    return done.stdout


def exists(program: str) -> bool:
    return shutil.which(program) is not None
