"""Which service a connection of Airflow means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from .service import Service

if TYPE_CHECKING:
    from airflow.sdk import Connection

DEFAULT_CONN_ID = "tidegate_default"

# Where `tidegate serve` listens unless it is told otherwise.
DEFAULT_PORT = 7118


class TidegateHook(BaseHook):
    """A connection: host, port, the token as the password; schema `https`, and `{"ca": FILE}` as extra, where there is TLS."""

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "tidegate"
    hook_name = "Tidegate"

    def __init__(self, conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.conn_id = conn_id

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        return {"hidden_fields": ["login"], "relabeling": {"password": "Token", "schema": "http or https"}}

    def get_conn(self) -> Service:
        """The service, for a task."""
        return service_of(self.get_connection(self.conn_id))

    async def get_async_conn(self) -> Service:
        """The same for a trigger."""
        return service_of(await self.aget_connection(self.conn_id))


def service_of(connection: Connection) -> Service:
    """Reads a connection."""
    scheme = connection.schema or "http"
    if scheme not in ("http", "https"):
        raise ValueError(f"the connection {connection.conn_id}: its schema is http or https, not {scheme!r}")
    if not connection.password:
        raise ValueError(f"the connection {connection.conn_id} has no password: it is the service's token")
    url = f"{scheme}://{connection.host or '127.0.0.1'}:{connection.port or DEFAULT_PORT}"
    return Service(url, connection.password, connection.extra_dejson.get("ca"))
