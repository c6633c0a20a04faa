"""What a transfer raises: one class for each exit code of the command, and what its JSON says of an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .results import TransferResult

ErrorKind = Literal[
    "not_found",
    "denied",
    "no_space",
    "changed",
    "corrupt",
    "unsafe_name",
    "busy",
    "authentication",
    "protocol",
    "connection",
    "interrupted",
    "usage",
    "io",
]


class Error(Exception):
    """Something failed; what it was, where, and what to do, in one line.

    Of this class itself, and not of one of those below, are failures that time may mend: a lost connection, a peer that
    is busy.
    """

    exit_code = 1
    """What the command would have ended with."""
    kind: ErrorKind
    """What a program may act on."""
    path: str | None
    """The file that failed, if it was one; the first where there were several."""
    result: TransferResult | None
    """What was done until then, if anything was begun."""

    def __init__(self, message: str, kind: ErrorKind = "io", path: str | None = None, result: TransferResult | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.path = path
        self.result = result


class IncompleteError(Error):
    """Some files did not arrive; `result.failures` lists them."""


class UsageError(Error, ValueError):
    """What was asked makes no sense."""

    exit_code = 2


class NotFoundError(Error, FileNotFoundError):
    """The source does not exist."""

    exit_code = 3


class NoSpaceError(Error, OSError):
    """The destination has no room left."""

    exit_code = 4


class RefusedError(Error, PermissionError):
    """Permission, the ticket or credentials do not suffice; trying again will not help."""

    exit_code = 5


class CancelledError(Error):
    """It was cancelled; the same call continues where it stopped."""

    exit_code = 130


_OF_CODE = {kind.exit_code: kind for kind in (UsageError, NotFoundError, NoSpaceError, RefusedError, CancelledError)}


def of_exit(code: int, message: str, kind: ErrorKind, result: TransferResult | None = None) -> Error:
    """The exception for an end with the exit code `code`."""
    failed = result.failures[0] if result is not None and result.failures else None
    told = result is not None and result.error is not None
    of = _OF_CODE.get(code) or (IncompleteError if failed is not None and not told else Error)
    return of(message, kind, None if failed is None else failed.path, result)
