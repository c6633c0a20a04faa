"""What URLs lead to: an endpoint, and a web server that can be told to misbehave."""

import subprocess
import threading
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from starter import TIDEGATE


class Endpoint:
    """`tidegate endpoint` on a directory."""

    def __init__(self, root, home, *more):
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
        self.process = subprocess.Popen(
            [TIDEGATE, "endpoint", "--root", root, "--listen", "127.0.0.1:0", *more],
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.address = next(line for line in self.process.stdout if line.startswith("tg://")).strip().rstrip("/")

    def at(self, path):
        return f"{self.address}/{path}"

    def ticket(self, *more):
        """A narrower address."""
        made = subprocess.run(
            [TIDEGATE, "ticket", *more, self.address.rpartition("@")[2]], capture_output=True, text=True, check=True, env=self.environment
        )
        return made.stdout.strip().rstrip("/")

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.process.stdout.close()


class Web(BaseHTTPRequestHandler):
    """Files in memory, and paths that answer as they are called: /status/403, /redirect/NAME, /login/NAME, /slow."""

    protocol_version = "HTTP/1.1"
    files = {}
    let_go = threading.Event()

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "status":
            return self.answer(int(rest.partition("/")[0]))
        if kind == "redirect":
            return self.answer(302, Location=f"/{rest}")
        if kind == "login":
            told = self.headers.get("Authorization", "").partition(" ")[2]
            if b64decode(told) != b"me:secret":
                return self.answer(401, WWW_Authenticate="Basic")
            kind = rest
        if kind == "slow":
            # Its end comes when the test has seen enough.
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(b"x" * 1000)
                self.wfile.flush()
                Web.let_go.wait(60)
            self.close_connection = True
            return None
        content = self.files.get(unquote(self.path.lstrip("/") if kind != rest else rest))
        return self.answer(404) if content is None else self.answer(200, content)

    do_HEAD = do_GET

    def do_PUT(self):
        kind, _, rest = self.path.lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if kind == "status":
            return self.answer(int(rest.partition("/")[0]))
        self.files[unquote(self.path.lstrip("/"))] = body
        return self.answer(201)

    def do_DELETE(self):
        gone = self.files.pop(unquote(self.path.lstrip("/")), None)
        self.answer(404 if gone is None else 204)

    def do_OPTIONS(self):
        self.answer(200, Allow="GET, HEAD, PUT, DELETE")

    def log_message(self, *_):
        pass


class WebServer:
    """The web server, in a thread."""

    def __init__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.place = f"127.0.0.1:{self.server.server_address[1]}"

    def at(self, path, scheme="http", login=""):
        return f"{scheme}://{login}{self.place}/{path}"

    def end(self):
        Web.let_go.set()
        self.server.shutdown()
        self.server.server_close()
