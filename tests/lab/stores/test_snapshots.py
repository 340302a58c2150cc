"""What snapshots share, from files as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

from elastream_lab.stores.snapshots import changelog_bytes, snapshots


def written(store: Path, name: str, **tables: int) -> None:
    listed = [
        {"localFileName": f"{name}.sst", "dfsSstFileName": f"{name}-1.sst", "sizeBytes": size}
        for name, size in tables.items()
    ]
    with ZipFile(store / name, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": listed, "numKeys": 3}))
        archive.writestr("CURRENT", "MANIFEST-000004\n")


def test_a_snapshot_brings_the_tables_that_the_one_before_did_not_have(tmp_path: Path) -> None:
    written(tmp_path, "4.zip", a=10, b=20)
    written(tmp_path, "11_abc.zip", b=20, c=30)
    (tmp_path / "5.changelog").write_bytes(b"12345")
    first, second = snapshots(tmp_path)
    assert (first.version, second.version) == (4, 11)
    assert first.brought(None) == {"a-1.sst": 10, "b-1.sst": 20}
    assert second.brought(first) == {"c-1.sst": 30}
    assert second.archive_bytes == (tmp_path / "11_abc.zip").stat().st_size
    assert changelog_bytes(tmp_path) == (5,)
