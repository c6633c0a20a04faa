"""What waits for a job in the triggerer, where a thousand of them share a process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from .hook import TidegateHook
from .service import ENDED, Service, ServiceError, UnreachableError


class JobTrigger(BaseTrigger):
    """Fires when a job has ended, with what has become of it."""

    def __init__(self, conn_id: str, job_id: int, poll_interval: float, retry_for: float) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.job_id = job_id
        self.poll_interval = poll_interval
        self.retry_for = retry_for

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("conn_id", "job_id", "poll_interval", "retry_for")
        return f"{type(self).__module__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        service = await TidegateHook(self.conn_id).get_async_conn()
        yield TriggerEvent(await ended(service, self.job_id, self.poll_interval, self.retry_for))


async def ended(service: Service, job_id: int, poll_interval: float, retry_for: float) -> dict[str, Any]:
    """Waits for a job's end; what is worth knowing of it. A service that does not answer is asked again for `retry_for` s."""
    heard = time.monotonic()
    while True:
        try:
            job = await service.job(job_id)
            heard = time.monotonic()
            if job["state"] in ENDED:
                return {name: job.get(name) for name in ("id", "state", "reason", "summary")}
        except UnreachableError as error:
            if time.monotonic() - heard > retry_for:
                return {"id": job_id, "state": "unknown", "reason": f"{error}, for {retry_for:.0f} s"}
        except ServiceError as error:
            return {"id": job_id, "state": "unknown", "reason": str(error)}
        await asyncio.sleep(poll_interval)
