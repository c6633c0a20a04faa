"""nginx in the sender's namespace: ranges, listings for rclone, and 429 above so many requests at once."""

from pathlib import Path

from lab.get.cases import RETRY_AFTER_S
from lab.links.link import SENDER_ADDRESS
from lab.runs import nginx
from lab.runs.trial import Trial

PORT = 8080
BASE = f"http://{SENDER_ADDRESS}:{PORT}"

SERVER = """
        listen {address}:{port} backlog=4096;
        server_name archive;
        root {root};
        location / {{
            autoindex on;
            {limit}
        }}
        location /tiny/ {{ return 200 "tidegate\\n"; }}
        location @busy {{
            internal;
            add_header Retry-After {retry_after} always;
            return 429;
        }}
"""
LIMITS = "limit_conn_zone $server_name zone=all:1m; limit_conn_status 429;"


def configuration(scratch: Path, root: Path, busy_above: int | None, log: bool = False) -> str:
    """The text of the file."""
    limit = f"limit_conn all {busy_above}; error_page 429 = @busy;" if busy_above is not None else ""
    server = SERVER.format(root=root, limit=limit, address=SENDER_ADDRESS, port=PORT, retry_after=RETRY_AFTER_S)
    return nginx.configuration(scratch, server, LIMITS, log)


def start(trial: Trial, busy_above: int | None, log: bool = False) -> None:
    nginx.start(trial, configuration(trial.scratch, trial.source.root, busy_above, log), PORT)
