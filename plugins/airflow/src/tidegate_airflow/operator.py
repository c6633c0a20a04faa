"""A transfer as a task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from .hook import DEFAULT_CONN_ID, TidegateHook
from .service import ServiceError, UnreachableError, wanted
from .trigger import JobTrigger, ended

if TYPE_CHECKING:
    from airflow.sdk import Context

# What the same transfer meets again, however often a task is retried.
LASTING = {"not_found", "denied", "authentication", "unsafe_name", "usage"}


class TidegateTransferOperator(BaseOperator):
    """Has a running `tidegate serve` move something, and returns the summary of the transfer.

    A task that is retried is a new job, which goes on where the one before has stopped; the same try is never submitted twice.

    :param source: what is moved: a path, a URL, an accession, or several at one site
    :param destination: where to
    :param job: more of a job, as docs/jobs.md has it: options, priority, retries, …
    :param conn_id: the connection of the service
    :param deferrable: whether the triggerer waits, and no worker
    :param poll_interval: how often it is looked whether it has ended, in seconds
    :param retry_for: how long a service that does not answer is asked again, in seconds
    """

    template_fields: Sequence[str] = ("source", "destination", "job")

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        destination: str,
        job: dict[str, Any] | None = None,
        conn_id: str = DEFAULT_CONN_ID,
        deferrable: bool = True,
        poll_interval: float = 5.0,
        retry_for: float = 600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.destination = destination
        self.job = job
        self.conn_id = conn_id
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self.retry_for = retry_for
        self.job_id: int | None = None

    def execute(self, context: Context) -> dict[str, Any] | None:
        service = TidegateHook(self.conn_id).get_conn()
        try:
            self.job_id = asyncio.run(service.submit(wanted(self.source, self.destination, self.job), key_of(context)))
        except (ServiceError, TypeError) as error:
            raise AirflowFailException(str(error)) from error
        except UnreachableError as error:
            raise AirflowException(str(error)) from error
        self.log.info("job %d of %s", self.job_id, service.url)
        if self.deferrable:
            trigger = JobTrigger(self.conn_id, self.job_id, self.poll_interval, self.retry_for)
            self.defer(trigger=trigger, method_name="finish", timeout=self.execution_timeout)
        return self.finish(context, asyncio.run(ended(service, self.job_id, self.poll_interval, self.retry_for)))

    def finish(self, context: Context, event: dict[str, Any]) -> dict[str, Any] | None:
        """Reads how the job has ended."""
        summary: dict[str, Any] | None = event.get("summary")
        if event["state"] == "done":
            return summary
        why = f"job {event['id']}: {event['state']}: {event['reason']}"
        is_lasting = summary is not None and summary.get("error_kind") in LASTING
        raise (AirflowFailException if is_lasting or event["state"] == "cancelled" else AirflowException)(why)

    def on_kill(self) -> None:
        """Ends the job of a task that is ended; what has arrived is kept."""
        if self.job_id is None:
            return
        try:
            asyncio.run(TidegateHook(self.conn_id).get_conn().cancel(self.job_id))
        except (ServiceError, UnreachableError) as error:
            self.log.warning("job %d goes on: %s", self.job_id, error)


def key_of(context: Context) -> str:
    """What a try of a task is called, so that it is taken once."""
    ti = context["ti"]
    return f"airflow {ti.id}" if getattr(ti, "id", None) else f"airflow {ti.dag_id} {ti.run_id} {ti.task_id} {ti.map_index} {ti.try_number}"
