"""A mover: sends pieces of its host's state files to movers of other hosts, and writes what comes.

A stand-in for what carries state in the papers, the file servers of the nodes; Spark's executors
load from the checkpoint instead. ``python -m elastream_lab.studies.transfer.mover ADDRESS FOLDER``
says ``"ready"`` and takes one order a line on standard input, in JSON: ``{"order": NUMBER, "to":
ADDRESS, "pieces": [[task, offset, size], ...]}``. When the mover there has written all of it, it
answers with the number of the order. One connection leads to each other mover, and is kept.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

PORT: Final = 7100
_PIECE: Final = struct.Struct("!qqq")
_DONE: Final = b"."
_READ: Final = 1 << 18


def state_file(folder: Path, task: int) -> Path:
    """Return the file that holds the state of a task."""
    return folder / f"task-{task}"


def _receive(peer: socket.socket, folder: Path) -> None:
    with peer, peer.makefile("rb", _READ) as said:
        while head := said.read(_PIECE.size):
            task, offset, size = _PIECE.unpack(head)
            path = state_file(folder, task)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
                file.seek(offset)
                while size:
                    piece = said.read(min(size, _READ))
                    if not piece:  # who sent it is gone
                        return
                    file.write(piece)
                    size -= len(piece)
            peer.sendall(_DONE)


def _accept(server: socket.socket, folder: Path) -> None:
    while True:
        peer, _ = server.accept()
        threading.Thread(target=_receive, args=(peer, folder), daemon=True).start()


def _send(address: str, folder: Path, orders: SimpleQueue[dict[str, Any]]) -> None:
    with socket.create_connection((address, PORT)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            order = orders.get()
            for task, offset, size in order["pieces"]:
                peer.sendall(_PIECE.pack(task, offset, size))
                if size:
                    with state_file(folder, task).open("rb") as file:
                        peer.sendfile(file, offset, size)
            left = len(order["pieces"])
            while left:
                left -= len(peer.recv(left))
            os.write(1, f"{order['order']}\n".encode())  # whole, whichever thread is quickest


def _give_up(failed: threading.ExceptHookArgs) -> None:
    """End, so that whoever waits for an answer knows."""
    print(f"the mover has failed: {failed.exc_value!r}", file=sys.stderr, flush=True)
    os._exit(1)


def main(address: str, folder: Path) -> None:
    """Serve until standard input ends, or something fails."""
    threading.excepthook = _give_up
    server = socket.create_server((address, PORT), backlog=64)
    threading.Thread(target=_accept, args=(server, folder), daemon=True).start()
    print(json.dumps("ready"), flush=True)
    ways: dict[str, SimpleQueue[dict[str, Any]]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        to = order["to"]
        if to not in ways:
            ways[to] = SimpleQueue()
            threading.Thread(target=_send, args=(to, folder, ways[to]), daemon=True).start()
        ways[to].put(order)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
