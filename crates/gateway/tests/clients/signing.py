"""Signature Version 4, written anew after AWS' pages, so that no client's own way of it is all that is shown."""

import hashlib
import hmac
from datetime import datetime, timezone
from urllib.parse import parse_qsl, quote, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"
# Signed headers that proxies and clients change.
UNSIGNED_HEADERS = {"authorization", "expect", "user-agent", "content-length", "transfer-encoding"}


def stamp(when=None):
    return (when or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def _mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Scope:
    """When and for what a key holds."""

    def __init__(self, secret, time, region="anywhere", service="s3"):
        self.time = time
        self.name = f"{time[:8]}/{region}/{service}/aws4_request"
        self.key = f"AWS4{secret}".encode()
        for part in self.name.split("/"):
            self.key = _mac(self.key, part)

    def sign(self, rest, algorithm=ALGORITHM):
        return _mac(self.key, f"{algorithm}\n{self.time}\n{self.name}\n{rest}").hex()


def canonical(method, target, headers, payload):
    """The form of a request that is signed, and the names of the headers in it."""
    path, _, query = target.partition("?")
    pairs = sorted(
        (quote(unquote_to_bytes(name), safe="-_.~"), quote(unquote_to_bytes(value), safe="-_.~"))
        for name, _, value in (pair.partition("=") for pair in query.split("&") if pair)
    )
    said = sorted((name.lower(), " ".join(value.split())) for name, value in headers.items())
    names = ";".join(name for name, _ in said)
    lines = [method, quote(unquote_to_bytes(path), safe="/-_.~"), "&".join(f"{name}={value}" for name, value in pairs)]
    lines += [f"{name}:{value}" for name, value in said] + ["", names, payload]
    return "\n".join(lines), names


def signed(method, target, headers, body, pair, when=None, payload=None, region="anywhere"):
    """The headers of a request that is signed by one of them."""
    time = stamp(when)
    payload = payload or sha256(body)
    headers = {"X-Amz-Date": time, "X-Amz-Content-Sha256": payload} | headers
    scope = Scope(pair[1], time, region)
    covered = {name: value for name, value in headers.items() if name.lower() not in UNSIGNED_HEADERS}
    form, names = canonical(method, target, covered, payload)
    signature = scope.sign(sha256(form.encode()))
    said = f"{ALGORITHM} Credential={pair[0]}/{scope.name}, SignedHeaders={names}, Signature={signature}"
    return headers | {"Authorization": said}


def presigned(method, target, headers, pair, when=None, expires="60", algorithm=ALGORITHM):
    """The target of a URL that is signed."""
    time = stamp(when)
    scope = Scope(pair[1], time)
    names = ";".join(sorted(name.lower() for name in headers))
    told = {
        "X-Amz-Algorithm": algorithm,
        "X-Amz-Credential": f"{pair[0]}/{scope.name}",
        "X-Amz-Date": time,
        "X-Amz-Expires": expires,
        "X-Amz-SignedHeaders": names,
    }
    told = "&".join(f"{name}={quote(value, safe='')}" for name, value in told.items())
    target = f"{target}{'&' if '?' in target else '?'}{told}"
    form, _ = canonical(method, target, headers, UNSIGNED)
    return f"{target}&X-Amz-Signature={scope.sign(sha256(form.encode()))}"


def chunked(headers, chunks, pair, trailer=""):
    """A body in signed chunks, for a request with the signed `headers`; `trailer` is a line behind it."""
    scope = Scope(pair[1], headers["X-Amz-Date"])
    before = headers["Authorization"].rpartition("Signature=")[2]
    body = b""
    for chunk in [*chunks, b""]:
        before = scope.sign(f"{before}\n{EMPTY}\n{sha256(chunk)}", f"{ALGORITHM}-PAYLOAD")
        body += f"{len(chunk):x};chunk-signature={before}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
    if trailer:
        told = sha256(f"{trailer}\n".encode())
        line = scope.sign(f"{before}\n{told}", f"{ALGORITHM}-TRAILER")
        body += f"{trailer}\r\nx-amz-trailer-signature:{line}\r\n".encode()
    return body + b"\r\n"


def changed(target, name, value):
    """A target with another value of a parameter."""
    path, _, query = target.partition("?")
    pairs = [(known, value if known == name else old) for known, old in parse_qsl(query, keep_blank_values=True)]
    return path + "?" + "&".join(f"{known}={quote(old, safe='')}" for known, old in pairs)
