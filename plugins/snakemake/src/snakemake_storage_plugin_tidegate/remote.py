"""Files of archives and servers, which are read and never written."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import tidegate

from .query import ACCESSION, Query

# How long a web server may take to answer, in seconds.
PATIENCE = 30


@dataclass(frozen=True)
class Known:
    """What is known of a file before it is got."""

    bytes: int
    modified_s: float
    md5: str | None


@lru_cache(maxsize=1024)
def files_of(name: str) -> tuple[tidegate.RemoteFile, ...]:
    """What an accession, or all beneath a bucket's prefix, comes to."""
    try:
        return tuple(tidegate.resolve(name))
    except tidegate.NotFoundError:
        return ()


def known(query: Query) -> Known | None:
    """What is known of a file; `None` if there is none.

    Files of archives do not change under their names, and neither archives nor buckets' listings tell when they were
    made here: they count as older than everything.
    """
    if query.scheme == ACCESSION:
        found = _named(query)
        return None if found is None else Known(found.bytes or 0, 0.0, found.checksums.get("md5"))
    if query.scheme in ("s3", "gs"):
        parent, slash, name = query.place.rpartition("/")
        found = next((file for file in files_of(parent + slash) if file.path == name), None)
        return None if found is None else Known(found.bytes or 0, 0.0, found.checksums.get("md5"))
    if query.scheme in ("http", "https"):
        return _asked(query.place)
    # FTP tells when it is read.
    return Known(0, 0.0, None)


def _named(query: Query) -> tidegate.RemoteFile | None:
    wanted = query.path
    return next((file for file in files_of(query.authority) if file.path.rpartition("/")[2] == wanted), None)


def _asked(url: str) -> Known | None:
    """What a web server says of a file."""
    try:
        with urlopen(Request(url, method="HEAD"), timeout=PATIENCE) as answer:
            head = answer.headers
    except HTTPError as error:
        if error.code in (404, 410):
            return None
        if error.code in (403, 405, 501):
            # Who answers GET only, or has signed for it.
            return Known(0, 0.0, None)
        raise
    modified = head.get("Last-Modified")
    size = head.get("Content-Length")
    try:
        modified_s = parsedate_to_datetime(modified).timestamp() if modified else 0.0
    except ValueError:
        modified_s = 0.0
    return Known(int(size) if size and size.isdecimal() else 0, modified_s, None)


def get(query: Query, to: Path, options: dict[str, Any]) -> None:
    """Gets a file under the name of `to`."""
    listed: dict[str, Any] = {"urls": [query.place], "path": to.name}
    if query.scheme == ACCESSION:
        found = _named(query)
        if found is None:
            raise FileNotFoundError(f"{query.authority} has no file {query.path}")
        listed |= {"urls": list(found.urls), "bytes": found.bytes, "checksums": found.checksums}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(json.dumps(listed) + "\n")
        file.flush()
        tidegate.get(file.name, to.parent, input_format="json", no_sidecars=True, overwrite=True, **options)
