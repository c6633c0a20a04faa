"""Tidegate as a storage of Snakemake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import tidegate
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.io import IOCacheStorageInterface, Mtime, get_constant_prefix
from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase
from snakemake_interface_storage_plugins.storage_object import StorageObjectGlob, StorageObjectRead, StorageObjectWrite
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)
from tidegate.fs import TidegateFileSystem

from . import remote
from .budget import slot
from .query import Query


@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):
    """What all transfers of a workflow on one host have together."""

    streams: int = field(
        default=32,
        metadata={"help": "Most network streams of all transfers that run at once on this host.", "type": int},
    )
    transfers: int = field(
        default=4,
        metadata={"help": "Most transfers that run at once on this host; they share the streams.", "type": int},
    )
    limit: str | None = field(
        default=None,
        metadata={"help": "Most of all transfers together, as in 800Mbit/s."},
    )


@lru_cache(maxsize=64)
def files_at(root: str) -> TidegateFileSystem:
    """The files of a place, over sessions that are kept."""
    return TidegateFileSystem(root)


class StorageProvider(StorageProviderBase):
    """All that is at Tidegate's endpoints, archives and servers."""

    settings: StorageProviderSettings

    def __post_init__(self) -> None:
        self.settings = self.settings or StorageProviderSettings()
        if not 1 <= self.settings.transfers <= self.settings.streams:
            raise WorkflowError("tidegate: at least one transfer is needed, and a stream for each")
        if self.settings.limit is not None:
            part_of(self.settings.limit, self.settings.transfers)
        # Beneath the prefix, which all jobs of a workflow share.
        self.slots = self.local_prefix / ".transfers"

    @property
    def options(self) -> dict[str, Any]:
        """A transfer's share of the budget."""
        share: dict[str, Any] = {"max_workers": max(1, self.settings.streams // self.settings.transfers)}
        return share

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        return [
            ExampleQuery("tidegate://dtn/run7/counts.tsv", "A file at an endpoint that `tidegate remote` knows", QueryType.ANY),
            ExampleQuery("tg://TICKET@dtn.example.org:7117/run7/counts.tsv", "The same by its ticket", QueryType.ANY),
            ExampleQuery("ssh://user@host/data/counts.tsv", "A file at a host that ssh reaches", QueryType.ANY),
            ExampleQuery("accession://SRR7706354/SRR7706354_1.fastq.gz", "A file of a run of ENA or SRA", QueryType.INPUT),
            ExampleQuery("https://example.org/genome.fa.gz", "A file of a server: also ftp, s3, gs", QueryType.INPUT),
        ]

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:
        return Query.parse(query).authority

    def default_max_requests_per_second(self) -> float:
        return 100.0

    def use_rate_limiter(self) -> bool:
        """Transfers keep to what each server bears by themselves."""
        return False

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        try:
            Query.parse(query)
        except ValueError as error:
            return StorageQueryValidationResult(cls._public(query), False, str(error))
        return StorageQueryValidationResult(query, True)

    @staticmethod
    def _public(query: str) -> str:
        return re.sub(r"://[^/]*@", "://…@", query)

    def safe_print(self, query: str) -> str:
        try:
            return Query.parse(query).public
        except ValueError:
            return self._public(query)


class StorageObject(StorageObjectRead, StorageObjectWrite, StorageObjectGlob):
    """A file, or a directory at a host that runs Tidegate."""

    provider: StorageProvider

    def __post_init__(self) -> None:
        self.parsed = Query.parse(self.query)

    @property
    def files(self) -> TidegateFileSystem:
        """The files of its place."""
        return files_at(self.parsed.root)

    def local_suffix(self) -> str:
        return self.parsed.suffix

    def cleanup(self) -> None:
        """Nothing is left beside what was moved."""

    def get_inventory_parent(self) -> str | None:
        """The directory whose list tells of its neighbours, too."""
        parent = self.parsed.path.rpartition("/")[0]
        return self.cache_key(self.parsed.sibling(parent).suffix) if self.parsed.is_at_host and parent else None

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """Asks once for a directory instead of for each file of it."""
        parent = self.get_inventory_parent()
        if parent is None or parent in cache.exists_in_storage:
            return
        directory = self.parsed.path.rpartition("/")[0]
        try:
            found = self.files.ls(directory, detail=True)
        except FileNotFoundError:
            cache.exists_in_storage[parent] = False
            return
        cache.exists_in_storage[parent] = True
        for info in found:
            key = self.cache_key(self.parsed.sibling(info["name"]).suffix)
            cache.exists_in_storage[key] = True
            cache.mtime[key] = Mtime(storage=info["mtime"])
            cache.size[key] = info["size"] if info["type"] == "file" else 0
        key = self.cache_key()
        if key not in cache.exists_in_storage:
            cache.exists_in_storage[key] = False

    def _info(self) -> dict[str, Any] | None:
        try:
            info: dict[str, Any] = self.files.info(self.parsed.path)
        except FileNotFoundError:
            return None
        return info

    def _known(self) -> remote.Known:
        if self.parsed.is_at_host:
            info = self._info()
            found = None if info is None else remote.Known(info["size"] if info["type"] == "file" else 0, info["mtime"], None)
        else:
            found = remote.known(self.parsed)
        if found is None:
            raise FileNotFoundError(f"{self.parsed.public} does not exist")
        return found

    def exists(self) -> bool:
        if self.parsed.is_at_host:
            return self._info() is not None
        return remote.known(self.parsed) is not None

    def mtime(self) -> float:
        return self._known().modified_s

    def size(self) -> int:
        return self._known().bytes

    def checksum(self) -> str | None:
        if self.parsed.is_at_host:
            return None
        md5 = self._known().md5
        return None if md5 is None else f"md5:{md5}"

    def local_footprint(self) -> int:
        info = self._info() if self.parsed.is_at_host else None
        if info is not None and info["type"] == "directory":
            size: int = self.files.du(self.parsed.path)
            return size
        return self.size()

    def retrieve_object(self) -> None:
        to = self.local_path()
        with slot(self.provider.slots, self.provider.settings.transfers):
            if not self.parsed.is_at_host:
                remote.get(self.parsed, to, self._options("limit_rate"))
                return
            info = self._info()
            if info is None:
                raise FileNotFoundError(f"{self.parsed.public} does not exist")
            is_directory = info["type"] == "directory"
            source, destination = self.parsed.place, str(to)
            if is_directory:
                source, destination = f"{source}/", f"{destination}/"
            tidegate.copy(source, destination, **self._options("limit_link"))

    def store_object(self) -> None:
        if not self.parsed.is_at_host:
            raise WorkflowError(
                f"{self.parsed.public} is an input only: outputs go to tidegate://, tg:// or ssh://"
            )
        here = self.local_path()
        source, destination = str(here), self.parsed.place
        if here.is_dir():
            source, destination = f"{source}/", f"{destination}/"
        with slot(self.provider.slots, self.provider.settings.transfers):
            tidegate.copy(source, destination, **self._options("limit_link"))

    def _options(self, limit: str) -> dict[str, Any]:
        share = self.provider.options
        if self.provider.settings.limit is not None:
            share[limit] = part_of(self.provider.settings.limit, self.provider.settings.transfers)
        return share

    def remove(self) -> None:
        if not self.parsed.is_at_host:
            raise WorkflowError(f"{self.parsed.public} is an input only, and is not removed")
        self.files.rm(self.parsed.path, recursive=True)

    def list_candidate_matches(self) -> Iterable[str]:
        if not self.parsed.is_at_host:
            raise WorkflowError(f"{self.parsed.public}: only hosts that run Tidegate are searched")
        directory = get_constant_prefix(self.parsed.path, strip_incomplete_parts=True).rstrip("/")
        return [str(self.parsed.sibling(path)) for path in self.files.find(directory)]


def part_of(rate: str, parts: int) -> str:
    """One of so many equal parts of a rate."""
    read = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/]+)\s*", rate)
    if read is None:
        raise WorkflowError(f"tidegate: {rate!r} is no rate: write one with its unit, as in 800Mbit/s")
    return f"{float(read[1]) / parts:.12g}{read[2]}"


