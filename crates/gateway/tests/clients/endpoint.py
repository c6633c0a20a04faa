"""`tidegate endpoint --https` on the loopback, tokens for it, and ways to ask it: boto3, and requests byte by byte.

One endpoint serves all tests of a process. A test has buckets of its own.
"""

import atexit
import functools
import http.client
import ipaddress
import itertools
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from xml.etree import ElementTree

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import signing

TIDEGATE = Path(os.environ.get("TIDEGATE", "target/debug/tidegate")).resolve()

# For how long something of the endpoint is waited for, in seconds: that long only if it hangs.
PATIENCE = 60

# Thousands of small files are synced; in memory that costs nothing.
MEMORY = "/dev/shm"

# A connection that nobody used for so many seconds may be closed by now.
IDLE = 2


@dataclass(frozen=True)
class Token:
    """`ID.SECRET`, which is a key pair as well."""

    word: str

    @property
    def id(self):
        return self.word.partition(".")[0]

    @property
    def secret(self):
        return self.word.partition(".")[2]


@dataclass
class Answer:
    """What came back for a request."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    _document: list = field(default_factory=list)

    @property
    def text(self):
        return self.body.decode(errors="replace")

    @property
    def code(self):
        """S3's word for what is wrong."""
        return self.find("Code")

    def all(self, name):
        """The texts of the elements called `name`, whatever their namespace."""
        return [element.text or "" for element in ElementTree.fromstring(self.body).findall(f".//{{*}}{name}")]

    def find(self, name):
        return next(iter(self.all(name)), None)


def certificate(home):
    """Writes a certificate of 127.0.0.1, and its key, into a directory."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (home / "cert.pem").write_bytes(made.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (home / "key.pem").write_bytes(private)


class Endpoint:
    """An endpoint that HTTP reaches, and what asks it."""

    def __init__(self, *more, scheme="https"):
        self.home = Path(tempfile.mkdtemp(prefix="tidegate-clients-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self.root = self.home / "root"
        self.root.mkdir()
        certificate(self.home)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TIDEGATE_STATE": str(self.home)}
        words = ["endpoint", "-v", "--root", self.root, "--state", self.home / "state", "--listen", "127.0.0.1:0"]
        words += [f"--{scheme}", "127.0.0.1:0"]
        if scheme == "https":
            words += ["--https-cert", self.home / "cert.pem", "--https-key", self.home / "key.pem"]
        self.log = self.home / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [TIDEGATE, *words, *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment
            )
        atexit.register(self.end)
        self.url = self._advertised(scheme)
        self.place = self.url.partition("//")[2]
        self.trust = ssl.create_default_context(cafile=self.home / "cert.pem")
        self.token = self.issue("--delete")
        self._numbers = itertools.count(1)
        self._connection, self._used = self.connection(), 0.0

    def _advertised(self, scheme):
        said = f"advertised as {scheme}://"
        until = time.monotonic() + PATIENCE
        while said not in (log := self.log.read_text()):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the endpoint did not begin: {log}")
            time.sleep(0.02)
        return f"{scheme}://" + log.partition(said)[2].split()[0].rstrip("/")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def issue(self, *options):
        """A token with the options of `tidegate ticket`."""
        return Token(self._ticket("--http", *options).strip())

    def revoke(self, token):
        self._ticket("--revoke", token.word)

    def _ticket(self, *options):
        words = [TIDEGATE, "ticket", "--state", self.home / "state", *options]
        ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=self.environment)
        if ran.returncode != 0:
            raise RuntimeError(f"{options}: {ran.stderr}")
        return ran.stdout

    def s3(self, token=None, **how):
        """A client of boto3, which tries once."""
        token = token or self.token
        config = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}, **how)
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=token.id,
            aws_secret_access_key=token.secret,
            region_name="anywhere",
            config=config,
            verify=str(self.home / "cert.pem"),
        )

    def bucket(self, *keys):
        """A new bucket with these keys in it, each of which holds its own name."""
        name = f"b{next(self._numbers)}"
        (self.root / name).mkdir()
        for key in keys:
            self.write(f"{name}/{key}", key)
        return name

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, name):
        """What is there; None for nothing."""
        path = self.root / name
        return path.read_bytes() if path.is_file() else None

    def connection(self):
        return http.client.HTTPSConnection(self.place, context=self.trust, timeout=PATIENCE)

    def send(self, method, target, headers=(), body=b""):
        """A request as it is given; http.client adds its length alone, unless a header says one."""
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
        names = {name.lower() for name, _ in pairs}
        # What one answer leaves of a connection is what the next request goes by.
        connection = self._connection
        if time.monotonic() - self._used > IDLE:
            connection.close()
        try:
            connection.putrequest(method, target, skip_host="host" in names, skip_accept_encoding=True)
            for name, value in pairs:
                connection.putheader(name, value)
            if not names & {"content-length", "transfer-encoding"}:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except BaseException:
            connection.close()
            raise
        self._used = time.monotonic()
        return answer

    def ask(self, method, target, headers=(), body=b"", token=None):
        """A request with the token as a bearer's."""
        bearer = {"Authorization": f"Bearer {(token or self.token).word}"}
        return self.send(method, target, bearer | dict(headers), body)

    def sign(self, method, target, headers=(), body=b"", token=None, **how):
        """The headers of a request that is signed."""
        token = token or self.token
        headers = {"Host": self.place} | dict(headers)
        return signing.signed(method, target, headers, body, (token.id, token.secret), **how)

    def ask_s3(self, method, target, headers=(), body=b"", **how):
        """A request that is signed."""
        return self.send(method, target, self.sign(method, target, headers, body, **how), body)

    def presign(self, method, target, headers=(), token=None, **how):
        """The target of a signed URL."""
        token = token or self.token
        return signing.presigned(method, target, {"Host": self.place} | dict(headers), (token.id, token.secret), **how)

    def raw(self, data):
        """What comes back for these bytes, until the connection ends."""
        with socket.create_connection(self.place.split(":"), timeout=PATIENCE) as plain:
            with self.trust.wrap_socket(plain, server_hostname="127.0.0.1") as stream:
                stream.sendall(data)
                answer = b""
                try:
                    while piece := stream.recv(65536):
                        answer += piece
                except (ssl.SSLEOFError, ConnectionResetError):
                    pass
                return answer


@functools.cache
def site():
    """The endpoint of this process."""
    return Endpoint()


@functools.cache
def client():
    """A client of boto3 with a token that may do everything."""
    return site().s3()


class Case(unittest.TestCase):
    """A test that asks the endpoint."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.site = site()
        cls.s3 = client()

    def refused(self, code, call, *words, **how):
        """Has a call of boto3 be refused with S3's word for it, or with a status."""
        with self.assertRaises(ClientError) as raised:
            call(*words, **how)
        answer = raised.exception.response
        told = answer["ResponseMetadata"]["HTTPStatusCode"] if isinstance(code, int) else answer["Error"]["Code"]
        self.assertEqual(told, code, answer)
        return answer

    def assertStatus(self, expected, answer, what=None):
        self.assertEqual(answer.status, expected, f"{what}: {answer.text}" if what else answer.text)

    def wait(self, holds):
        """Waits until a condition holds."""
        until = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), until, "it never did")
            time.sleep(0.01)

    def content(self, bucket, key, **how):
        return self.s3.get_object(Bucket=bucket, Key=key, **how)["Body"].read()

    def keys(self, bucket, **how):
        return [found["Key"] for found in self.s3.list_objects_v2(Bucket=bucket, **how).get("Contents", [])]
