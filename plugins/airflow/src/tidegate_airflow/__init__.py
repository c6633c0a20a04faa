"""Tidegate for Airflow: transfers as tasks, deferred to the triggerer while the service works on them."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """What Airflow asks a provider for."""
    return {
        "package-name": "airflow-provider-tidegate",
        "name": "Tidegate",
        "description": "Transfers by Tidegate's service",
        "connection-types": [{"connection-type": "tidegate", "hook-class-name": "tidegate_airflow.hook.TidegateHook"}],
    }
