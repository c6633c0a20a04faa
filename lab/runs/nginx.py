"""nginx in the sender's namespace: what every configuration of the lab has in common."""

from pathlib import Path

from lab.runs.trial import Command, Trial

# What it puts into files on the way.
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

CONFIGURATION = """\
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
    {temporary}
    {more}
    server {{
{server}
    }}
}}
"""


def configuration(scratch: Path, server: str, more: str = "", log: bool = False) -> str:
    """The text of the file: `server` is what its one server has, `more` stands before it.

    The log has the bytes of each body that was sent, a line each.
    """
    accesses = f"log_format sent '$body_bytes_sent'; access_log {scratch}/access.log sent;" if log else "access_log off;"
    temporary = " ".join(f"{what}_temp_path {scratch}/nginx-{what};" for what in TEMPORARY)
    return CONFIGURATION.format(scratch=scratch, temporary=temporary, log=accesses, more=more, server=server.strip("\n"))


def start(trial: Trial, text: str, port: int) -> None:
    """Starts it and waits until it listens at that port."""
    written = trial.scratch / "nginx.conf"
    written.write_text(text)
    trial.serve(Command(trial.link.sender, ["nginx", "-c", written]), port)
