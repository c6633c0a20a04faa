"""A program that runs beside a measurement, obeys lines on its standard input, and answers each with one line."""

import os
import select
import subprocess
import time
from collections.abc import Sequence

from lab.ground.shell import CommandFailed

PATIENCE_S = 5.0


class Talker:
    """Started at once, and ready when it says so; `close` ends it."""

    def __init__(self, what: str, argv: Sequence[object]) -> None:
        self.what = what
        self.begun = b""
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0)
        try:
            if (said := self.hear()) != "ready":
                raise CommandFailed(f"{self.what} said '{said}' instead of 'ready'{self.last_words()}")
        except BaseException:
            self.close()
            raise

    def tell(self, line: str) -> None:
        """Has something done; it confirms by saying the same."""
        if (said := self.ask(line)) != line:
            raise CommandFailed(f"{self.what} was told '{line}' and said '{said}'")

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except OSError:
            raise CommandFailed(f"{self.what} is gone and was told '{line}'{self.last_words()}") from None
        return self.hear()

    def hear(self) -> str:
        """Its next line, within a bound."""
        assert self.process.stdout is not None
        until = time.monotonic() + PATIENCE_S
        while b"\n" not in self.begun:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise CommandFailed(f"{self.what} says nothing for {PATIENCE_S:g} s")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise CommandFailed(f"{self.what} ended{self.last_words()}")
            self.begun += part
        line, _, self.begun = self.begun.partition(b"\n")
        return line.decode(errors="replace").strip()

    def last_words(self) -> str:
        """What it wrote to its standard error, if it has ended."""
        assert self.process.stderr is not None
        try:
            self.process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return ""
        said = self.process.stderr.read().decode(errors="replace").strip()
        return f": {said[-400:]}" if said else ""

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
