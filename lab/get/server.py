"""nginx in the sender's namespace: ranges, listings for rclone, and 429 above so many requests at once."""

from pathlib import Path

from lab.get.cases import RETRY_AFTER_S
from lab.links.link import SENDER_ADDRESS
from lab.runs.trial import Command, Trial

PORT = 8080
BASE = f"http://{SENDER_ADDRESS}:{PORT}"
PACKAGES = ("nginx-light",)

CONFIGURATION = """
daemon off;
user root;
worker_processes 2;
worker_rlimit_nofile 65536;
pid {scratch}/nginx.pid;
error_log {scratch}/nginx.log error;
events {{ worker_connections 4096; }}
http {{
    {log}
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 10000000;
    client_body_temp_path {scratch}/nginx-body;
    proxy_temp_path {scratch}/nginx-proxy;
    fastcgi_temp_path {scratch}/nginx-fastcgi;
    uwsgi_temp_path {scratch}/nginx-uwsgi;
    scgi_temp_path {scratch}/nginx-scgi;
    limit_conn_zone $server_name zone=all:1m;
    limit_conn_status 429;
    server {{
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
    }}
}}
"""


def configuration(scratch: Path, root: Path, busy_above: int | None, log: bool = False) -> str:
    """The text of the file. The log has the bytes of each body that was sent, a line each."""
    limit = f"limit_conn all {busy_above}; error_page 429 = @busy;" if busy_above is not None else ""
    accesses = f"log_format sent '$body_bytes_sent'; access_log {scratch}/access.log sent;" if log else "access_log off;"
    return CONFIGURATION.format(scratch=scratch, root=root, limit=limit, log=accesses, address=SENDER_ADDRESS, port=PORT,
                                retry_after=RETRY_AFTER_S)


def start(trial: Trial, busy_above: int | None, log: bool = False) -> None:
    written = trial.scratch / "nginx.conf"
    written.write_text(configuration(trial.scratch, trial.source.root, busy_above, log))
    trial.serve(Command(trial.link.sender, ["nginx", "-c", written]), PORT)
