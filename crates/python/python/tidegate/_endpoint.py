"""An endpoint that is there while a `with` block runs."""

from __future__ import annotations

import logging
import subprocess
import threading
import weakref
from types import TracebackType
from typing import IO, Unpack

from ._call import documented
from ._options import EndpointOptions
from ._run import KIND_OF_CODE, program
from ._values import Place, in_keywords, place, text
from ._words import options as said
from .errors import Error, of_exit

_LOG = logging.getLogger("tidegate")

# How long it may take to end that was asked to, in seconds.
_ENDING = 20.0


@documented("endpoint")
class Endpoint:
    """Serves a directory to those who have the address: `tidegate endpoint`.

        with tidegate.Endpoint("shared", read_only=True) as endpoint:
            tidegate.copy(f"{endpoint.address}results", "there/")

    It is a process of its own, begun by `with` or `start()`, and ended with the block, by `close()`, or with this process.
    It listens on the loopback, at a port that is free; `listen="0.0.0.0:7117"` is for other hosts. What it warns of goes
    to the logger `tidegate`.
    """

    def __init__(self, root: Place = ".", *, listen: str = "127.0.0.1:0", **options: Unpack[EndpointOptions]) -> None:
        self._root = place("root", root)
        words = [f"--root={self._root}", f"--listen={text('listen', listen)}"]
        self._words = ["endpoint", *words, *said("endpoint", EndpointOptions, options)]
        self._address: str | None = None
        self._end: weakref.finalize[[subprocess.Popen[str]], Endpoint] | None = None

    @property
    def address(self) -> str:
        """Its address, with a ticket for all that it serves: who has it may do what the endpoint allows."""
        if self._address is None:
            raise ValueError("the endpoint does not run: begin it by `with` or start()")
        return self._address

    def start(self) -> Endpoint:
        """Begins it, and waits until it listens."""
        if self._address is not None:
            raise ValueError("the endpoint runs already")
        where = program()
        if where is None:
            raise FileNotFoundError("the program tidegate of this package is not found")
        process = subprocess.Popen(
            [where, *self._words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Ctrl-C is for this process, which ends it.
            process_group=0,
        )
        assert process.stdout is not None and process.stderr is not None
        self._end = weakref.finalize(self, _end, process)
        try:
            address = process.stdout.readline().strip()
            if not address.startswith("tg://"):
                raise self._failure(process.stderr.read().splitlines(), process.wait(_ENDING))
        except BaseException:
            self.close()
            process.stdout.close()
            process.stderr.close()
            raise
        self._address = address
        # What nobody hears must not hold it up.
        for output, told in ((process.stdout, False), (process.stderr, True)):
            threading.Thread(target=_hear, args=(output, told), daemon=True).start()
        return self

    def _failure(self, said: list[str], code: int) -> Error:
        message = in_keywords(said[-1].removeprefix("tidegate: ") if said else f"the endpoint ended with {code}", EndpointOptions)
        kind = KIND_OF_CODE.get(code, "io")
        return of_exit(code, message, kind, filename=self._root if kind == "not_found" else None)

    def close(self) -> None:
        """Ends it; transfers that are under way are cut off, and continue with the next one."""
        self._address = None
        if self._end is not None:
            self._end()
            self._end = None

    def __enter__(self) -> Endpoint:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        # Without the ticket.
        place = "" if self._address is None else self._address.rpartition("@")[2]
        return f"<tidegate.Endpoint {place or 'that does not run'}>"


def _hear(output: IO[str], told: bool) -> None:
    with output:
        for line in output:
            if told:
                _LOG.warning("%s", line.removeprefix("tidegate: ").rstrip())


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
