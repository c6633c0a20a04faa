"""A file system of fsspec: files at an endpoint, at a host that ssh reaches, or here.

    fsspec.open("tidegate://dtn/data/table.csv")        # of an endpoint that `tidegate remote` knows
    fsspec.open("tg://TICKET@host:7117/data/table.csv")
    fsspec.filesystem("tidegate", place="user@host:data")

Small files and ranges travel over sessions that are kept; whole files of more than `MAX_CONTENT` bytes as `tidegate.copy`
moves them, adaptively and verified.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.callbacks import DEFAULT_CALLBACK  # type: ignore[import-untyped]
from fsspec.spec import AbstractBufferedFile  # type: ignore[import-untyped]
from fsspec.utils import isfilelike, stringify_path  # type: ignore[import-untyped]

from . import transfers
from ._core import MAX_CONTENT, Connection
from ._options import LsOptions
from ._values import flag, text, whole
from ._words import options as said
from .errors import DirectoryError, Error, UsageError

# What a file is first asked for when its size is not known: enough for most, in one answer.
_FIRST = MAX_CONTENT // 2

# How many files are got at once: what has arrived of them is held here.
_AT_ONCE = 128

# How many small files are put at once.
_SMALL_AT_ONCE = 8

_ADDRESS, _NAME = "tg://", "tidegate://"


class TidegateFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files beneath one place, which is named by a URL or by `place`; options are those of `tidegate ls`."""

    protocol: ClassVar[tuple[str, ...]] = ("tidegate", "tg")
    root_marker = ""

    def __init__(
        self, place: str, sessions: int = 16, block_size: int | None = None, cache_type: str = "readahead", **options: Any
    ) -> None:
        """`place` is what `tidegate copy` takes; at most `sessions` connections read at once, as many as `auto` finds good.

        Files are opened with that block size and cache, unless it is said then.
        """
        of_fsspec = {name: options.pop(name) for name in _OF_FSSPEC if name in options}
        self._words = [*said("ls", LsOptions, options, without=("recursive",)), "--", text("place", place)]
        if whole("sessions", sessions) < 1:
            raise UsageError("sessions must be at least 1", "usage")
        super().__init__(place=place, sessions=sessions, block_size=block_size, cache_type=cache_type, **options, **of_fsspec)
        self._place, self._sessions, self._options = place, sessions, options
        self._block_size, self._cache_type = block_size, cache_type
        self._lock = Lock()
        self._connected: tuple[int, Connection] | None = None

    @property
    def _connection(self) -> Connection:
        with self._lock:
            # A child that was forked has none of the threads that carry it.
            if self._connected is None or self._connected[0] != os.getpid():
                self._connected = os.getpid(), Connection(self._words, self._sessions)
            return self._connected[1]

    def close(self) -> None:
        """Closes its sessions; what is asked next opens new ones."""
        with self._lock:
            self._connected = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = text("path", stringify_path(path))
        for scheme in (_ADDRESS, _NAME):
            if path.startswith(scheme):
                path = path[len(scheme) :].partition("/")[2]
        return path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        authority = path.partition("://")[2].partition("/")[0]
        if path.startswith(_ADDRESS):
            return {"place": f"{_ADDRESS}{authority}/"}
        return {"place": f"{authority}:/"} if path.startswith(_NAME) and authority else {}

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path; that of an address is without its ticket."""
        path = self._strip_protocol(name)
        if self._place.startswith(_ADDRESS):
            return f"{_ADDRESS}{self._place[len(_ADDRESS) :].partition('/')[0].rpartition('@')[2]}/{path}"
        return f"{_NAME}{self._place.partition(':')[0]}/{path}"

    def _at(self, path: str) -> str:
        """A path as the command takes it."""
        joint = "" if self._place.endswith(("/", ":")) else "/"
        return f"{self._place}{joint}{path}"

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return _info(path, self._connection.stat(path))

    def exists(self, path: str, **kwargs: Any) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        itself, entries, _ = self._connection.list(path, False)
        if itself[0] != "directory":
            return [_info(path, itself) if detail else path]
        found = [_info(_inside(path, name), status) for name, status in entries]
        return found if detail else [one["name"] for one in found]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        if maxdepth is not None:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        path = self._strip_protocol(path)
        try:
            itself, entries, problems = self._connection.list(path, True)
        except FileNotFoundError:
            return {} if detail else []
        if problems:
            raise Error(problems[0])
        found = [_info(_inside(path, name), status) for name, status in entries]
        if itself[0] != "directory" or (withdirs and path):
            found.insert(0, _info(path, itself))
        kept = {one["name"]: one for one in found if withdirs or one["type"] != "directory"}
        return kept if detail else sorted(kept)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def blake3(self, path: str) -> str:
        """The BLAKE3 hash of a file, as its own host computes it."""
        path = self._strip_protocol(path)
        try:
            return self._connection.hash(path)
        except UsageError as error:
            if self.isdir(path):
                raise _is_directory(path) from error
            raise

    def checksum(self, path: str) -> int:
        """The same as a number, as fsspec has checksums."""
        return int(self.blake3(path), 16)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        content: bytes = self.cat_ranges([path], [start], [end], on_error="raise")[0]
        return content

    def cat_ranges(
        self, paths: list[str], starts: Any, ends: Any, max_gap: int | None = None, on_error: str = "return", **kwargs: Any
    ) -> list[Any]:
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        begins = starts if isinstance(starts, list) else [starts] * len(paths)
        stops = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(begins) == len(stops) == len(paths):
            raise ValueError("as many starts and ends are needed as paths")
        names = [self._strip_protocol(path) for path in paths]
        found: list[Any] = [None] * len(names)
        known: list[tuple[int, int, int]] = []
        whole = []
        for i, (start, end) in enumerate(zip(begins, stops, strict=True)):
            if (start or 0) >= 0 and end is not None and end >= 0:
                known.append((i, start or 0, end))
            elif not start and end is None:
                whole.append(i)
            else:
                try:
                    known.append((i, *_within(self.info(names[i])["size"], start, end)))
                except Error as error:
                    found[i] = error
        read = self._connection.read([(names[i], None, start, end) for i, start, end in known])
        for (i, *_), content in zip(known, read, strict=True):
            found[i] = self._of_file(names[i], content)
        for i, content in zip(whole, self._whole([names[i] for i in whole]), strict=True):
            found[i] = content
        failed = next((one for one in found if isinstance(one, Exception)), None)
        if failed is not None and on_error == "raise":
            raise failed
        return found

    def _whole(self, paths: Sequence[str]) -> list[bytes | Error]:
        """Whole files: what most of them are in one answer each, and the rest of those that are longer."""
        found = list(self._connection.read([(path, None, 0, _FIRST) for path in paths]))
        rest: list[tuple[int, tuple[str, bytes | None, int, int]]] = []
        for i, content in enumerate(found):
            if isinstance(content, bytes) and len(content) == _FIRST:
                try:
                    info = self.info(paths[i])
                    rest.append((i, (paths[i], info["version"], 0, info["size"])))
                except Error as error:
                    found[i] = error
        for (i, _), content in zip(rest, self._connection.read([wanted for _, wanted in rest]), strict=True):
            found[i] = content
        return [self._of_file(path, content) for path, content in zip(paths, found, strict=True)]

    def _of_file(self, path: str, content: bytes | Error) -> bytes | Error:
        """What was read of a path; of a directory there is nothing to be read."""
        if isinstance(content, UsageError) and self.isdir(path):
            return _is_directory(path)
        return content

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **kwargs)
        if recursive:
            paths = [one for one in paths if not self.isdir(one)]
        content = self.cat_ranges(paths, None, None, on_error="raise" if on_error == "raise" else "return")
        found = zip(paths, content, strict=True)
        return {name: one for name, one in found if on_error != "omit" or isinstance(one, bytes)}

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> TidegateFile:
        block_size = block_size or self._block_size
        kwargs = {"cache_type": self._cache_type, "cache_options": cache_options} | kwargs
        return TidegateFile(self, path, mode, block_size or "default", autocommit, **kwargs)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        # A number would be so many zeros.
        content = bytes(memoryview(value))
        new = self._check_mode(mode, path)
        if len(content) <= MAX_CONTENT:
            return self._write(path, content, new)
        with tempfile.TemporaryDirectory() as directory:
            spool = Path(directory, "content")
            spool.write_bytes(content)
            self._send(spool, path, new=new)

    def _write(self, path: str, content: bytes, new: bool) -> None:
        try:
            with _new(path, new):
                self._connection.write(path, content, new)
        except UsageError as error:
            if self.isdir(path):
                raise _is_directory(path) from error
            raise

    def _send(self, file: str | Path, path: str, callback: Any = DEFAULT_CALLBACK, new: bool = False) -> None:
        if self.isdir(path):
            raise _is_directory(path)
        options = {**self._options, "ignore_existing": True} if new else self._options
        with _new(path, new):
            moved = transfers.copy(file, self._at(path), progress=_following(callback), **options).files.ok
        if new and not moved:
            raise FileExistsError(f"{path} exists")

    def put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        path = self._strip_protocol(rpath)
        new = self._check_mode(mode, path)
        if os.path.isdir(lpath):
            return self.makedirs(path, exist_ok=True)
        size = os.stat(lpath).st_size
        callback.set_size(size)
        if size > MAX_CONTENT:
            return self._send(os.path.abspath(lpath), path, callback, new)
        self._write(path, Path(lpath).read_bytes(), new)
        callback.absolute_update(size)

    def get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any) -> None:
        path = self._strip_protocol(rpath)
        if outfile is not None or isfilelike(lpath):
            super().get_file(path, lpath, callback=callback, outfile=outfile, **kwargs)
            return
        info = self.info(path)
        if info["type"] == "directory":
            return os.makedirs(lpath, exist_ok=True)
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        callback.set_size(info["size"])
        if info["size"] > MAX_CONTENT:
            transfers.copy(self._at(path), os.path.abspath(lpath), progress=_following(callback), **self._options)
            return
        Path(lpath).write_bytes(self.cat_file(path))
        callback.absolute_update(info["size"])

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        pairs = _Pairs(self)
        AbstractFileSystem.get(pairs, rpath, lpath, recursive=recursive, maxdepth=maxdepth, **kwargs)
        callback.set_size(len(pairs.found))
        for at in range(0, len(pairs.found), _AT_ONCE):
            some = pairs.found[at : at + _AT_ONCE]
            read = self._connection.read([(self._strip_protocol(source), None, 0, _FIRST) for source, _ in some])
            for (source, destination), content in zip(some, read, strict=True):
                if isinstance(content, bytes) and len(content) < _FIRST and not isfilelike(destination):
                    os.makedirs(os.path.dirname(os.path.abspath(destination)), exist_ok=True)
                    Path(destination).write_bytes(content)
                else:
                    # It is large, or a directory, or says by itself what is wrong.
                    with callback.branched(source, destination) as child:
                        self.get_file(source, destination, callback=child, **kwargs)
                callback.relative_update()

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        pairs = _Pairs(self)
        AbstractFileSystem.put(pairs, lpath, rpath, recursive=recursive, maxdepth=maxdepth, **kwargs)
        callback.set_size(len(pairs.found))

        def put(pair: tuple[Any, Any]) -> None:
            with callback.branched(*pair) as child:
                self.put_file(*pair, callback=child, **kwargs)
            callback.relative_update()

        small: list[tuple[Any, Any]] = []
        for pair in pairs.found:
            if os.path.isdir(pair[0]) or os.stat(pair[0]).st_size > MAX_CONTENT:
                put(pair)
            else:
                small.append(pair)
        with ThreadPoolExecutor(min(self._sessions, _SMALL_AT_ONCE)) as several:
            # The first that failed is told once all have ended.
            list(several.map(put, small))

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file by way of this host."""
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        info = self.info(source)
        if info["type"] == "directory":
            return self.makedirs(destination, exist_ok=True)
        if info["size"] <= MAX_CONTENT:
            return self.pipe_file(destination, self.cat_file(source))
        with tempfile.TemporaryDirectory() as directory:
            self.get_file(source, f"{directory}/content")
            self._send(f"{directory}/content", destination)

    def mv_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Gives a file, or a directory with all that is in it, another name."""
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        if parent := self._parent(destination):
            self.makedirs(parent, exist_ok=True)
        self._connection.rename(source, destination)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        flag("recursive", recursive)
        is_pattern = not isinstance(path1, str) or not isinstance(path2, str) or any(c in path1 for c in "*?[")
        if is_pattern or maxdepth is not None:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        if not recursive and self.isdir(source):
            raise _is_directory(source, ": recursive=True moves it")
        # As `cp` and `mv` take it: into what is a directory, or is to be one.
        if path2.endswith("/") or self.isdir(destination):
            destination = _inside(destination, source.rpartition("/")[2])
        if source != destination:
            self.mv_file(source, destination)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        try:
            self._connection.remove([path], [])
        except Error as error:
            if self.isdir(path):
                raise _is_directory(path) from error
            raise

    def rmdir(self, path: str) -> None:
        self._connection.remove([], [self._strip_protocol(path)])

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        flag("recursive", recursive)
        found: dict[str, bool] = {}
        for one in self.expand_path(path, recursive=False, maxdepth=maxdepth):
            info = self.info(one)
            found[one] = info["type"] == "directory" and not info["islink"]
            if found[one] and not recursive:
                raise _is_directory(one, ": recursive=True removes it with all that is in it")
            if found[one]:
                entries = self.find(one, maxdepth=maxdepth, withdirs=True, detail=True)
                found |= {name: entry["type"] == "directory" and not entry["islink"] for name, entry in entries.items()}
        files = [name for name, is_directory in found.items() if not is_directory]
        directories = [name for name, is_directory in found.items() if is_directory and name]
        # What lies deeper goes first.
        self._connection.remove(files, sorted(directories, key=lambda name: name.count("/"), reverse=True))

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        self._make_new(path, create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not flag("exist_ok", exist_ok):
            self._make_new(path, True)
        elif path:
            self._connection.make_directory(path, True)

    def _make_new(self, path: str, parents: bool) -> None:
        self._must_not_exist(path)
        parent = path.rpartition("/")[0]
        if parents and parent:
            self._connection.make_directory(parent, True)
        with _new(path, True):
            self._connection.make_directory(path, False)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        if not flag("truncate", truncate) and self.exists(path):
            raise NotImplementedError("times of files that are there cannot be set")
        self.pipe_file(path, b"")

    def _check_mode(self, mode: str, path: str) -> bool:
        """Whether the file is to be new."""
        if mode not in ("overwrite", "create"):
            raise UsageError(f"mode must be 'overwrite' or 'create', not {mode!r}", "usage")
        if mode == "create":
            self._must_not_exist(path)
        return mode == "create"

    def _must_not_exist(self, path: str) -> None:
        if self.exists(path):
            raise FileExistsError(f"{path or '/'} exists")


@contextmanager
def _new(path: str, new: bool) -> Iterator[None]:
    """What is to be `new` replaces nothing, also what somebody else has made since it was looked: that is told as Python has it."""
    try:
        yield
    except Error as error:
        failures = error.result.failures if error.result else ()
        if new and "changed" in {error.kind, *(failure.kind for failure in failures)}:
            raise FileExistsError(f"{path} exists") from error
        raise


class _Pairs:
    """Stands for a file system where fsspec finds out what `get` and `put` move: it notes that, and moves nothing."""

    def __init__(self, fs: TidegateFileSystem) -> None:
        self._fs = fs
        self.found: list[tuple[Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def get_file(self, source: Any, destination: Any, **kwargs: Any) -> None:
        self.found.append((source, destination))

    put_file = get_file


class TidegateFile(AbstractBufferedFile):  # type: ignore[misc]
    """One version of a file that is read in blocks, or a file that is written as a whole when it is closed."""

    def __init__(self, fs: TidegateFileSystem, path: str, mode: str, *arguments: Any, **kwargs: Any) -> None:
        if mode == "ab":
            raise UsageError("nothing is appended to a file: write it anew", "usage")
        if mode == "xb":
            fs._must_not_exist(path)
        self._spool: Any = None
        super().__init__(fs, path, mode, *arguments, **kwargs)
        # At once, and not when it is read from or closed.
        if self.details["type"] == "directory" if mode == "rb" else mode != "xb" and fs.isdir(path):
            # There is nothing to be written, either.
            self.closed = True
            raise _is_directory(self.path)

    def _fetch_range(self, start: int, end: int) -> bytes:
        connection: Connection = self.fs._connection
        content = connection.read([(self.path, self.details["version"], start, end)])[0]
        if isinstance(content, Error):
            raise content
        return content

    def _initiate_upload(self) -> None:
        self._spool = tempfile.TemporaryDirectory()

    def _upload_chunk(self, final: bool = False) -> bool:
        with open(f"{self._spool.name}/content", "ab") as spool:
            spool.write(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Gives the file its name, once it has arrived."""
        mode = "create" if self.mode == "xb" else "overwrite"
        try:
            self.fs.put_file(f"{self._spool.name}/content", self.path, mode=mode)
        finally:
            self.discard()

    def discard(self) -> None:
        """Forgets what was written."""
        if self._spool is not None:
            self._spool.cleanup()
            self._spool = None

    def __exit__(self, kind: type[BaseException] | None, *raised: Any) -> None:
        # What an exception has left half written gets no name.
        if kind is not None and self.mode != "rb":
            self.forced = True
            self.discard()
        self.close()


# Options of fsspec, which the command does not know.
_OF_FSSPEC = ("use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "asynchronous", "loop")


def _is_directory(path: str, what_to_do: str = "") -> DirectoryError:
    return DirectoryError(f"{path or '/'} is a directory{what_to_do}", "usage", filename=path or "/")


def _info(path: str, status: tuple[str, int, int, float, bytes, str | None]) -> dict[str, Any]:
    kind, size, mode, modified, version, link = status
    info = {"name": path, "size": 0 if kind == "directory" else size, "type": kind, "mode": mode, "mtime": modified}
    info |= {"version": version, "islink": link is not None}
    return info if link is None else info | {"destination": link}


def _inside(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _within(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """A range as Python's slices have it."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def _following(callback: Any) -> Any:
    """Progress of a transfer, as fsspec is told of it."""
    return lambda seen: callback.absolute_update(seen.bytes)
