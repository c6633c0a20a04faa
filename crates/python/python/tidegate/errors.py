"""What a transfer raises: one class for each exit code of the command, and what its JSON says of an error."""

from __future__ import annotations

import errno as _errno
import os
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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

# What time may mend: an end that does not answer or is busy, a file that was written to, and a damage on the way.
_PASSING = ("connection", "busy", "changed", "corrupt")

# The number that stands for a kind where no operating system of this host has said one.
_ERRNO_OF_KIND: dict[str, int] = {
    "not_found": _errno.ENOENT,
    "denied": _errno.EACCES,
    "authentication": _errno.EACCES,
    "unsafe_name": _errno.EPERM,
    "no_space": _errno.ENOSPC,
    "busy": _errno.EBUSY,
    "connection": _errno.ECONNABORTED,
}


class Error(Exception):
    """Something failed; what it was, where, and what to do, in one line."""

    exit_code = 1
    """What the command would have ended with."""
    _number: ClassVar[int | None] = None
    kind: ErrorKind
    """What a program may act on."""
    path: str | None
    """The file that failed, if it was one; the first where there were several."""
    result: TransferResult | None
    """What was done until then, if anything was begun."""
    errno: int | None
    """The operating system's number for it, or the one that its kind comes nearest to; None where it has none."""
    strerror: str | None
    """What the operating system says of that number."""
    filename: str | None
    """What it is about, if that is known: the file that failed, or else a place of the call, without a ticket."""

    def __init__(
        self,
        message: str,
        kind: ErrorKind = "io",
        path: str | None = None,
        result: TransferResult | None = None,
        errno: int | None = None,
        filename: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.path = path
        self.result = result
        self.errno = self._number or _ERRNO_OF_KIND.get(kind) if errno is None else errno
        self.filename = path if filename is None else filename
        self.strerror = None if self.errno is None else os.strerror(self.errno)

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later though nobody changes anything."""
        failures = self.result.failures if self.result is not None and self.result.error is None else ()
        return any(kind in _PASSING for kind in ([failure.kind for failure in failures] or [self.kind]))

    def __str__(self) -> str:
        # Not as the system's errors are shown, with number and name: the line says what there is to say.
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        told = (str(self), self.kind, self.path, self.result, self.errno, self.filename)
        return type(self), told, self.__dict__


class IncompleteError(Error):
    """Some files did not arrive; `result.failures` lists them."""


class UnreachableError(Error, ConnectionError):
    """The other end takes no connections, does not answer, or was lost."""


class IncompleteUnreachableError(IncompleteError, UnreachableError):
    """Files did not arrive, and each of them because its server was not reached."""


class UsageError(Error, ValueError):
    """What was asked makes no sense."""

    exit_code = 2


class DirectoryError(UsageError, IsADirectoryError):
    """That is a directory, and a file is needed."""

    _number = _errno.EISDIR


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


_OF_CODE: dict[int, type[Error]] = {
    kind.exit_code: kind for kind in (UsageError, NotFoundError, NoSpaceError, RefusedError, CancelledError)
}


def of_exit(
    code: int,
    message: str,
    kind: ErrorKind,
    errno: int | None = None,
    filename: str | None = None,
    result: TransferResult | None = None,
) -> Error:
    """The exception for an end with the exit code `code`."""
    failures = result.failures if result is not None else ()
    failed = failures[0] if failures else None
    if errno is None and failed is not None and failed.message == message:
        errno = failed.errno
    some = bool(failures) and result is not None and result.error is None
    lost = all(one.kind == "connection" for one in failures) if some else kind == "connection"
    of: type[Error] = UnreachableError if lost else Error
    if some:
        of = IncompleteUnreachableError if lost else IncompleteError
    of = _OF_CODE.get(code, of)
    return of(message, kind, None if failed is None else failed.path, result, errno, filename if failed is None else None)
