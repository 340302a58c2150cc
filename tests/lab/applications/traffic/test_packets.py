from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from elastream.model.errors import ProblemError
from elastream_lab.applications.traffic.made_packets import MadeTraffic, make_packets
from elastream_lab.applications.traffic.packets import (
    PacketLog,
    Packets,
    read_packets,
    record_substreams,
    substream_of,
)
from elastream_lab.harness.recording import Recording

PACKETS = [
    ("1600000004", "c", "x", "1500"),
    ("1600000000", "a", "x", "40"),
    ("1600000001", "b", "y", "576"),
]
"""Time, source, destination and size."""


def listed(packets: Packets) -> list[tuple[object, ...]]:
    columns = (packets.source, packets.destination, packets.size)
    return list(zip(packets.time_us.tolist(), *(c.to_pylist() for c in columns), strict=True))


def log(path: Path, *, size: str | None = "bytes") -> PacketLog:
    return PacketLog(path, "ts", "from", "to", size)


def write_csv(path: Path) -> None:
    lines = ["ts,from,to,bytes", *(",".join(packet) for packet in PACKETS)]
    path.write_text("\n".join(lines) + "\n")


def write_tabs(path: Path) -> None:
    lines = ["ts\tfrom\tto\tbytes", *("\t".join((*packet, "", "")) for packet in PACKETS)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def write_blanks(path: Path) -> None:
    path.write_text("\n".join(["ts from to bytes", *("  ".join(packet) for packet in PACKETS)]))


def write_zeek(path: Path) -> None:
    head = ["#separator \\x09", "#path\tconn", "#fields\tts\tuid\tfrom\tto\tbytes", "#types\ttime"]
    rows = ["\t".join((when, "C1", *others)) for when, *others in PACKETS]
    path.write_text("\n".join([*head, *rows, "#close\t2024"]) + "\n")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", write_csv),
        ("a.tsv.gz", write_tabs),
        ("a.txt", write_blanks),
        ("conn.log", write_zeek),
    ],
)
def test_a_log_in_any_format_gives_the_same_packets_in_order(
    tmp_path: Path, name: str, write: object
) -> None:
    assert callable(write)
    write(tmp_path / name)
    packets = read_packets(log(tmp_path / name))
    assert listed(packets) == [
        (1_600_000_000_000_000, "a", "x", 40),
        (1_600_000_001_000_000, "b", "y", 576),
        (1_600_000_004_000_000, "c", "x", 1500),
    ]


def test_a_size_that_is_not_known_has_no_value(tmp_path: Path) -> None:
    file = tmp_path / "conn.log"
    file.write_text("#fields\tts\tfrom\tto\tbytes\n1600000000\ta\tx\t-\n1600000001\ta\tx\t7\n")
    assert read_packets(log(file)).size.to_pylist() == [None, 7]
    assert read_packets(log(file, size=None)).size.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("content", "name", "line"),
    [
        ("ts,from\n1,a\n", "a.csv", "destination: {file} has no column 'to'; it has ts, from"),
        ("ts,from,to,bytes\n", "a.csv", "input: {file} has no rows"),
        ("ts,from,to,bytes\n1,a,x,big\n", "a.csv", "size: column 'bytes' holds string, not num"),
        (
            '{"ts": 1, "from": [1], "to": "x", "bytes": 1}',
            "a.json",
            "source: column 'from' holds list<item: int64>, not names",
        ),
        ("# only\n", "a.log", "input: {file} is not a log with tabs: it has no header"),
        ("a\ta\n1\t2\n", "a.tsv", "input: {file} is not tab-separated: it has no header"),
    ],
)
def test_a_log_that_cannot_be_monitored_is_reported_in_one_line(
    tmp_path: Path, content: str, name: str, line: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(ProblemError) as raised:
        read_packets(log(file))
    assert str(raised.value).startswith(line.format(file=file))
    assert len(str(raised.value).splitlines()) == 1


def test_made_traffic_is_the_same_for_the_same_seed_and_in_order() -> None:
    traffic = MadeTraffic(seed=4, span_s=20, packets_a_second=50)
    packets = make_packets(traffic)
    assert listed(packets) == listed(make_packets(traffic))
    assert listed(packets) != listed(make_packets(MadeTraffic(seed=5, span_s=20)))
    assert (np.diff(packets.time_us) >= 0).all()
    assert packets.time_us[-1] - packets.time_us[0] <= 20e6
    assert len(packets) == pytest.approx(1000, rel=0.2)


def test_sub_streams_of_made_traffic_burst_and_differ() -> None:
    packets = make_packets(MadeTraffic(seed=2, span_s=512, packets_a_second=200, substreams=3))
    times_s = (packets.time_us - packets.time_us[0]) // 1_000_000
    rates = [np.bincount(times_s[rows], minlength=512) for rows in packets.split(3)]
    assert len({rate.sum() for rate in rates}) == 3
    for rate in rates:
        assert rate.std() > 0.5 * rate.mean(), "far more than Poisson's"
        assert rate.reshape(-1, 16).mean(axis=1).std() > 0.3 * rate.mean(), "at a longer scale too"


def recorded(packets: Packets, folder: Path, substreams: int) -> tuple[Recording, ...]:
    return record_substreams(packets, folder, substreams=substreams, replay_s=10)


def test_every_packet_is_in_the_sub_stream_of_its_source_and_due_in_proportion(
    tmp_path: Path,
) -> None:
    packets = make_packets(MadeTraffic(span_s=30, packets_a_second=20, substreams=2))
    found = []
    for number, recording in enumerate(recorded(packets, tmp_path, 2)):
        (rows,) = (recording.slices(0, recording.rows),)
        for part in rows:
            columns = [part.column(name).to_pylist() for name in ("source", "destination", "size")]
            times = part.column("time").cast("int64").to_pylist()
            found += list(zip(times, *columns, strict=True))
            assert {substream_of(source, 2) for source in columns[0]} == {number}
        assert (np.diff(recording.due_ms) >= 0).all()
        assert recording.due_ms[-1] <= 10_000
    assert sorted(found) == sorted(listed(packets))


def test_a_sub_stream_without_any_source_is_refused(tmp_path: Path) -> None:
    packets = make_packets(MadeTraffic(span_s=5, substreams=1, sources=2))
    with pytest.raises(ProblemError, match="substreams: 30 are too many: no source falls into"):
        recorded(packets, tmp_path, 30)


def test_a_part_of_the_packets_is_a_part_of_their_time() -> None:
    packets = make_packets(MadeTraffic(span_s=10))
    first, rest = packets.between(0, 0.3), packets.between(0.3, 1)
    assert listed(first) + listed(rest) == listed(packets)
    assert first.time_us[-1] < packets.time_us[0] + 3_000_000 + 1


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"bias": 1.0}, "bias: 1 is not from 0.5 to below 1"),
        ({"span_s": 0}, "span_s: 0 is not positive; give more than zero"),
        ({"substreams": 0}, "substreams: 0 is too small"),
    ],
)
def test_traffic_that_cannot_be_made_is_refused(wrong: dict[str, float], line: str) -> None:
    with pytest.raises(ProblemError) as raised:
        MadeTraffic(**wrong)  # type: ignore[arg-type]
    assert str(raised.value).startswith(line)
