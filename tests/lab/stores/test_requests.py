from __future__ import annotations

from pathlib import Path

from elastream_lab.stores.requests import Request, read_requests

LOG = """\
log starts 2026-11-16 21:00:00 +0000 UTC m=+0.1
- bucket [16/November/2026:21:00:02 +0000] ::1 me 1F s3_PutObject a/commits/0 /x 200 - 0 29 3 3
- bucket [16/November/2026:21:00:03 +0000] ::1 me 2F s3_ListObjectsV2 - /x?a 200 - 90 0 1 1
- bucket [16/November/2026:21:00:03 +0000] ::1 me 3F s3_HeadObject a/commits/1 /y 404 NoKey 0 0
- bucket [16/Nov
"""


def test_every_request_of_a_log_is_read_with_its_time_and_object(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    log.write_text(LOG)
    at_ms = 1794862802000.0
    assert list(read_requests(log)) == [
        Request(at_ms, "PutObject", "a/commits/0", 200),
        Request(at_ms + 1000, "ListObjectsV2", "", 200),
        Request(at_ms + 1000, "HeadObject", "a/commits/1", 404),
    ]
