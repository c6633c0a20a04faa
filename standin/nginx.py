"""A configuration of nginx that serves a data set's files: for rates that Python does not reach."""

from pathlib import Path

CONFIGURATION = """\
daemon off;
worker_processes 2;
pid {scratch}/nginx.pid;
error_log {scratch}/nginx.log warn;
{user}events {{ worker_connections 4096; }}
http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path {scratch}/nginx-body;
    proxy_temp_path {scratch}/nginx-proxy;
    fastcgi_temp_path {scratch}/nginx-fastcgi;
    uwsgi_temp_path {scratch}/nginx-uwsgi;
    scgi_temp_path {scratch}/nginx-scgi;
    limit_conn_zone $server_addr zone=bodies:1m;
    limit_conn_status {busy};
    server {{
        listen {address}:{port};
{tls}        root {root};
{limits}        location = /runs.json {{ return 404; }}
    }}
}}
"""


def configuration(root: Path, scratch: Path, address: str, port: int, rate: float, connections: int, busy: int,
                  retry_after: float, tls: tuple[int, Path, Path] | None, as_root: bool) -> str:
    """The text of the file; `tls` is a port, a certificate and its key."""
    limits = f"        limit_rate {int(rate)};\n" if rate else ""
    if connections:
        limits += f"        limit_conn bodies {connections};\n"
        if retry_after:
            limits += f"        error_page {busy} @busy;\n        location @busy {{\n"
            limits += f"            add_header Retry-After {retry_after:g} always;\n            return {busy};\n"
            limits += "        }\n"
    secure = ""
    if tls:
        secure = f"        listen {address}:{tls[0]} ssl;\n        ssl_certificate {tls[1].resolve()};\n"
        secure += f"        ssl_certificate_key {tls[2].resolve()};\n"
    return CONFIGURATION.format(root=root.resolve(), scratch=scratch.resolve(), address=address, port=port, busy=busy,
                                limits=limits, tls=secure, user="user root;\n" if as_root else "")
