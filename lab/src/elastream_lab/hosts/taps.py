"""TAP devices: what a host sends can be read from a file, and what is written there it receives.

With the header that shows of segments and checksums left undone, the kernel hands over up to 64 KiB
of a TCP stream as one frame. So a forwarder in Python keeps up with hundreds of megabytes a second.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

DEVICE: Final = "/dev/net/tun"
HEADER_BYTES: Final = 10
"""What Linux puts before each frame."""
LARGEST_FRAME: Final = 68 << 10

_SET_INTERFACE: Final = 0x400454CA
_SET_OFFLOAD: Final = 0x400454D0
_TAP: Final = 0x0002
_NO_PACKET_INFORMATION: Final = 0x1000
_WITH_HEADER: Final = 0x4000
_CHECKSUMS: Final = 0x01
_SEGMENTS_OF_TCP: Final = 0x02


def open_tap(name: str) -> int:
    """Make a device of that name, and return the file to read and write; it goes with the file."""
    file = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
    flags = _TAP | _NO_PACKET_INFORMATION | _WITH_HEADER
    try:
        fcntl.ioctl(file, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), flags))
        fcntl.ioctl(file, _SET_OFFLOAD, _CHECKSUMS | _SEGMENTS_OF_TCP)
    except OSError:
        os.close(file)
        raise
    return file
