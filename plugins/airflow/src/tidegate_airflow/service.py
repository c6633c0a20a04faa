"""The jobs of a running `tidegate serve`, over its HTTP API. Airflow is not known here."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

# States that a job does not leave by itself.
ENDED = {"done", "failed", "cancelled"}

# How long an answer may take, in seconds.
PATIENCE = 30.0


class ServiceError(Exception):
    """The service refused what was asked; in one line, with its advice."""


class UnreachableError(Exception):
    """The service did not answer, or not for now; time may mend it."""


def wanted(source: Any, destination: Any, job: Any) -> dict[str, Any]:
    """A job as it is submitted. What is of another type would be read as something else, and is a `TypeError`."""
    several = isinstance(source, Iterable) and not isinstance(source, (str, Mapping))
    sources = list(source) if several else [source]
    if not all(isinstance(one, str) for one in sources):
        raise TypeError(f"source must be a text, or several, not {source!r}")
    if not isinstance(destination, str):
        raise TypeError(f"destination must be a text, not {destination!r}")
    if not (job is None or isinstance(job, dict)):
        raise TypeError(f"job must be a dict, not {job!r}")
    return {**(job or {}), "sources": sources, "destination": destination}


@dataclass(frozen=True)
class Service:
    """Where the service is, and what it is shown."""

    url: str
    token: str = field(repr=False)
    ca: str | None = None

    async def submit(self, job: dict[str, Any], key: str) -> int:
        """Has a job queued, once under `key` however often it is sent; its number."""
        told = await self._ask("POST", "/jobs", {"json": job, "headers": {"Idempotency-Key": key}})
        number: int = told["ids"][0]
        return number

    async def job(self, number: int) -> dict[str, Any]:
        """A job as it stands."""
        return await self._ask("GET", f"/jobs/{number}")

    async def cancel(self, number: int) -> None:
        """Asks a job to end, if it has not ended."""
        await self._ask("POST", f"/jobs/{number}/cancel")

    async def _ask(self, method: str, path: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
        verify = ssl.create_default_context(cafile=self.ca) if self.url.startswith("https:") else False
        head = {"Authorization": f"Bearer {self.token}"}
        try:
            async with httpx.AsyncClient(verify=verify, timeout=PATIENCE, headers=head, trust_env=False) as client:
                answer = await client.request(method, f"{self.url}/api/v1{path}", **(more or {}))
        except httpx.TransportError as error:
            raise UnreachableError(f"{self.url} does not answer: {str(error) or type(error).__name__}") from error
        if answer.is_success:
            told: dict[str, Any] = answer.json()
            return told
        why = f"{self.url} answers {answer.status_code}"
        if answer.headers.get("content-type", "").startswith("application/problem+json"):
            problem = answer.json()
            why = f"{problem['detail']}: {problem['advice']}"
        if answer.status_code in (429, 502, 503, 504):
            raise UnreachableError(why)
        raise ServiceError(why)
