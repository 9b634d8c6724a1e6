"""Messages between the app, the agent and the job processes: a JSON header and byte strings that nobody opens.

The agent reads headers only. Functions, arguments, results and records pass through it as bytes, so that nothing that
a job made is ever unpickled in the agent.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from typing import Any, TypeAlias

Wire: TypeAlias = "Connection[Any, Any]"
Header = dict[str, Any]

# A peer that stops in the middle of a message is given up after this long.
TRANSFER_SECONDS = 20
HEADER_BYTES = 4 * 2**20
# Everything that can go wrong with the peer: it left, stopped halfway, does not know the key, or talks nonsense.
BROKEN = (OSError, EOFError, AuthenticationError, ValueError, KeyError, TypeError)


def send(connection: Wire, header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send a header and byte strings.

    >>> from multiprocessing import Pipe
    >>> here, there = Pipe()
    >>> send(here, {"op": "status"}, [b"ab", b"c"])
    >>> receive(there, max_bytes=100)
    ({'op': 'status'}, [b'ab', b'c'])
    """
    sizes = [len(blob) for blob in blobs]
    connection.send_bytes(json.dumps({**header, "sizes": sizes}).encode())
    if sizes:
        connection.send_bytes(b"".join(blobs))


def receive(connection: Wire, max_bytes: int) -> tuple[Header, list[bytes]]:
    """Receive what `send` sent. Raises one of BROKEN where the peer leaves, stops halfway or sends too much."""
    header = json.loads(connection.recv_bytes(HEADER_BYTES))
    sizes: list[int] = header.pop("sizes")
    if not sizes:
        return header, []
    body = connection.recv_bytes(max_bytes)
    if len(body) != sum(sizes):
        raise ValueError(f"a message announced {sum(sizes)} bytes and has {len(body)}")
    blobs, start = [], 0
    for size in sizes:
        blobs.append(body[start : start + size])
        start += size
    return header, blobs


def connect(address: str, key: bytes) -> Wire:
    """Connect to an agent and prove to each other that both know the key. Raises one of BROKEN."""
    connection: Any = Client(address)  # on Windows of another class with the same methods
    try:
        bound_transfers(connection)
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    except BaseException:
        connection.close()
        raise
    made: Wire = connection
    return made


def accept(connection: Wire, key: bytes) -> None:
    """The agent's side of `connect`, for a connection that just arrived. Raises one of BROKEN."""
    bound_transfers(connection)
    deliver_challenge(connection, key)
    answer_challenge(connection, key)


def bound_transfers(connection: Wire) -> None:
    """Make a send or receive that stops halfway fail after TRANSFER_SECONDS instead of blocking for ever."""
    if os.name != "posix":  # a Windows pipe has no such option; there only the peer's thread would wait
        return
    bound = struct.pack("ll", TRANSFER_SECONDS, 0)
    # Socket options belong to the socket, not to the descriptor: set them through a second one.
    with socket.socket(fileno=os.dup(connection.fileno())) as same_socket:
        same_socket.setblocking(True)
        same_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
        same_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
