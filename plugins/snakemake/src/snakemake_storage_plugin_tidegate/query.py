"""What a query names, without asking anybody."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

# Hosts that run Tidegate: files there are read and written.
HOSTS = ("tg", "tidegate", "ssh")

# Servers of others: files there are read.
SERVERS = ("http", "https", "ftp", "ftps", "s3", "gs")

# A file of an archive's run: accession://SRR7706354/SRR7706354_1.fastq.gz
ACCESSION = "accession"


@dataclass(frozen=True)
class Query:
    """A query in its parts."""

    scheme: str
    authority: str
    path: str
    """Relative, without slashes at its ends."""
    more: str
    """What stands behind the path of a server's URL: `?…`."""

    @classmethod
    def parse(cls, text: str) -> Query:
        """Reads one.

        Raises ValueError, in words for people.
        """
        scheme, is_url, rest = text.partition("://")
        if not is_url or scheme not in (*HOSTS, *SERVERS, ACCESSION):
            known = ", ".join(f"{scheme}://" for scheme in (*HOSTS, ACCESSION, *SERVERS))
            raise ValueError(f"it begins with none of {known}")
        authority, _, path = rest.partition("/")
        more = ""
        if scheme in SERVERS and "?" in path:
            path, more = path.split("?", 1)
            more = f"?{more}"
        path = path.strip("/")
        if not authority:
            raise ValueError("it names no host" if scheme != ACCESSION else "it names no accession")
        if not path:
            raise ValueError("it names no file")
        if any(part in ("", ".", "..", ".tidegate") for part in path.split("/")):
            raise ValueError("its path has a part that is empty, '.', '..' or '.tidegate'")
        # What is none would be taken for the name of a file here.
        if scheme == ACCESSION and not re.fullmatch(r"[A-Za-z]{3,6}[0-9]+|\{\w+[^/]*\}", authority):
            raise ValueError(f"{authority!r} is no accession, as SRR7706354 is one")
        if scheme == ACCESSION and "/" in path:
            raise ValueError("behind the accession one name is expected, as in accession://SRR7706354/SRR7706354_1.fastq.gz")
        return cls(scheme, authority, path, more)

    @property
    def is_at_host(self) -> bool:
        """Whether it is where Tidegate runs."""
        return self.scheme in HOSTS

    @property
    def place(self) -> str:
        """What Tidegate calls it."""
        if self.scheme == "tidegate":
            return f"{self.authority}:/{self.path}"
        return f"{self.scheme}://{self.authority}/{self.path}{self.more}"

    @property
    def root(self) -> str:
        """The place that its path is relative to."""
        return f"{self.authority}:/" if self.scheme == "tidegate" else f"{self.scheme}://{self.authority}/"

    def sibling(self, path: str) -> Query:
        """Another path at the same place."""
        return Query(self.scheme, self.authority, path, self.more)

    @property
    def public(self) -> str:
        """Without tickets, logins, and queries that may be signed."""
        host = self.authority.rpartition("@")[2]
        return f"{self.scheme}://{host}/{self.path}{'?…' if self.more else ''}"

    @property
    def suffix(self) -> str:
        """A local path for it alone, without what is secret."""
        host = self.authority.rpartition("@")[2]
        parts = [self.scheme, host, self.path]
        if self.more:
            directory, _, name = self.path.rpartition("/")
            parts = [self.scheme, host, *([directory] if directory else []), sha256(self.more.encode()).hexdigest()[:16], name]
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/{self.path}{self.more}"
