"""A configuration of nginx that serves a data set's files: for rates that Python does not reach."""

from dataclasses import dataclass
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
{tls}        location / {{
            root {root};
{limits}        }}
        location ~ ^/(ena|entrez|sdl|standin)/ {{ proxy_pass {interfaces}; }}
        location = /runs.json {{ return 404; }}
{refusal}    }}
}}
"""


@dataclass
class Shape:
    """How the files are served; nothing said is no limit."""

    address: str
    port: int
    interfaces: str  # the URL of the stand-in, to which everything but files is passed on
    rate: float = 0  # bytes a second of each connection
    connections: int = 0
    busy: int = 429
    retry_after: float = 0
    tls: tuple[int, Path, Path] | None = None  # port, certificate, key


def configuration(root: Path, scratch: Path, shape: Shape, as_root: bool) -> str:
    """The text of the file; nginx keeps its own files in `scratch`."""
    limits, refusal, tls = "", "", ""
    if shape.rate:
        limits += f"            limit_rate {int(shape.rate)};\n"
    if shape.connections:
        limits += f"            limit_conn bodies {shape.connections};\n"
    if shape.connections and shape.retry_after:
        limits += f"            error_page {shape.busy} @busy;\n"
        refusal = f"        location @busy {{\n            add_header Retry-After {shape.retry_after:g} always;\n"
        refusal += f"            return {shape.busy};\n        }}\n"
    if shape.tls:
        port, certificate, key = shape.tls
        tls = f"        listen {shape.address}:{port} ssl;\n        ssl_certificate {certificate.resolve()};\n"
        tls += f"        ssl_certificate_key {key.resolve()};\n"
    return CONFIGURATION.format(root=root.resolve(), scratch=scratch.resolve(), address=shape.address,
                                port=shape.port, busy=shape.busy, interfaces=shape.interfaces, limits=limits,
                                refusal=refusal, tls=tls, user="user root;\n" if as_root else "")
