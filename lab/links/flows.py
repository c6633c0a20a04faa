"""Both ends of the traffic that competes with a measured transfer: a program of its own, told by lines what to do.

flows.py receive PORT           "report" is answered with what has arrived, twice a second, as one line of JSON
flows.py send ADDRESS PORT      "streams N" and "rate BIT_PER_S" hold from then on and are confirmed

Streams are TCP and send all they may; the rate is UDP and gives way to nobody. Data is zeros that nobody looks at:
the sender hands out one page-cache file and the receiver has the kernel throw away what came, so that a gigabit
costs a few per cent of a processor.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time

PIECE = 1 << 20
SAMPLE_S = 0.5
# A datagram of this payload is 28 bytes longer on the link; so many leave in one call (UDP_SEGMENT).
DATAGRAM, HEADERS, TRAIN = 1400, 28, 10
UDP_SEGMENT = 103


class Lines:
    """Whole lines from standard input; None at its end."""

    def __init__(self) -> None:
        self.begun = b""

    def read(self) -> list[str] | None:
        part = os.read(0, 4096)
        if not part:
            return None
        *whole, self.begun = (self.begun + part).split(b"\n")
        return [line.decode() for line in whole]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def receive(port: int) -> None:
    listener = socket.create_server(("", port), backlog=256)
    # Bound and never read: what does not fit is dropped, and no error goes back.
    idle = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    idle.bind(("", port))
    wanted = selectors.DefaultSelector()
    wanted.register(listener, selectors.EVENT_READ)
    wanted.register(0, selectors.EVENT_READ)
    lines, room, arrived, streams = Lines(), bytearray(PIECE), 0, 0
    samples: list[tuple[float, int, int]] = []
    due = time.monotonic()
    say("ready")
    while True:
        for key, _ in wanted.select(max(0.0, due - time.monotonic())):
            if key.fileobj == 0:
                told = lines.read()
                if told is None:
                    return
                for _ in told:
                    say(json.dumps([*samples, (time.monotonic(), arrived, streams)]))
            elif key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                wanted.register(connection, selectors.EVENT_READ)
                streams += 1
            else:
                assert isinstance(key.fileobj, socket.socket)
                try:
                    got = key.fileobj.recv_into(room, PIECE, socket.MSG_TRUNC)
                except BlockingIOError:
                    continue
                except OSError:
                    got = 0
                arrived += got
                if not got:
                    wanted.unregister(key.fileobj)
                    key.fileobj.close()
                    streams -= 1
        if time.monotonic() >= due:
            due += SAMPLE_S
            samples.append((time.monotonic(), arrived, streams))


def send(address: str, port: int) -> None:
    zeros = os.memfd_create("zeros")
    os.truncate(zeros, PIECE)
    packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    packets.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, DATAGRAM)
    packets.connect((address, port))
    packets.setblocking(False)
    train, train_bits = bytes(DATAGRAM * TRAIN), (DATAGRAM + HEADERS) * TRAIN * 8
    wanted = selectors.DefaultSelector()
    wanted.register(0, selectors.EVENT_READ)
    lines, streams, rate, due = Lines(), [], 0.0, 0.0  # type: Lines, list[socket.socket], float, float

    def obey(line: str) -> str:
        nonlocal rate, due
        word, _, number = line.partition(" ")
        if word == "streams":
            while len(streams) < int(number):
                stream = socket.socket()
                stream.setblocking(False)
                # Many of them over a long path: none waits for the one before.
                stream.connect_ex((address, port))
                wanted.register(stream, selectors.EVENT_WRITE)
                streams.append(stream)
            while len(streams) > int(number):
                stream = streams.pop()
                wanted.unregister(stream)
                # What waits to be sent is not sent any more.
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                stream.close()
        elif word == "rate":
            rate, due = float(number), time.monotonic()
        else:
            return f"error: it knows streams and rate, not {word}"
        return line

    say("ready")
    while True:
        patience = max(0.0, due - time.monotonic()) if rate else None
        for key, _ in wanted.select(patience):
            if key.fileobj == 0:
                told = lines.read()
                if told is None:
                    return
                for line in told:
                    try:
                        say(obey(line))
                    except (OSError, ValueError) as error:
                        say(f"error: {error}")
            elif key.fileobj in streams:
                assert isinstance(key.fileobj, socket.socket)
                try:
                    os.sendfile(key.fileobj.fileno(), zeros, 0, PIECE)
                except BlockingIOError:
                    continue
                except OSError as error:
                    sys.exit(f"a stream broke: {error}")
        now = time.monotonic()
        # After a delay it catches up a little, not all at once.
        due = max(due, now - 0.01)
        while rate and due <= now:
            try:
                packets.send(train)
            except OSError:
                pass
            due += train_bits / rate


if __name__ == "__main__":
    if sys.argv[1:2] == ["receive"]:
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]))
