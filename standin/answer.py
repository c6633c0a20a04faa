"""An answer of an interface."""

from dataclasses import dataclass, field


@dataclass
class Answer:
    """Status, body, type and further header lines."""

    status: int
    body: bytes = b""
    kind: str = "text/plain"
    headers: dict[str, str] = field(default_factory=dict)


def text(body: str, kind: str) -> Answer:
    """Status 200 with text."""
    return Answer(200, body.encode(), kind)
