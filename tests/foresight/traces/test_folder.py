from __future__ import annotations

from pathlib import Path

import pytest

from elastream.foresight.traces.folder import commit, prepare, publish, read_manifest
from elastream.model.errors import ProblemError


def trace(folder: Path, **about: object) -> Path:
    unfinished = prepare(folder, overwrite=True)
    commit(unfinished, about)
    publish(unfinished, folder)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_trace_appears_whole_and_nothing_is_left_next_to_it(tmp_path: Path) -> None:
    trace(tmp_path / "trace", seed=1)
    assert files(tmp_path) == ["trace", "trace/manifest.json"]
    assert read_manifest(tmp_path / "trace")["seed"] == 1


def test_the_old_trace_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    out = trace(tmp_path / "trace", seed=1)
    prepare(out, overwrite=True)  # and nothing more: the build was killed
    assert read_manifest(out)["seed"] == 1
    trace(out, seed=2)
    assert read_manifest(out)["seed"] == 2
    assert files(tmp_path) == ["trace", "trace/manifest.json"]


def test_what_cannot_be_put_in_place_leaves_the_old_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = trace(tmp_path / "trace", seed=1)
    unfinished = prepare(out, overwrite=True)
    commit(unfinished, {"seed": 2})
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self == unfinished:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="No space left"):
        publish(unfinished, out)
    assert read_manifest(out)["seed"] == 1


@pytest.mark.parametrize("name", [".trace", "..trace", "trace.d"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    assert read_manifest(trace(tmp_path / name, seed=3))["seed"] == 3


@pytest.mark.parametrize("strange", [".git", "notes.txt", "tasks.bak"])
def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path, strange: str) -> None:
    (tmp_path / strange).write_text("mine")
    with pytest.raises(ProblemError, match=f"holds {strange}, which is not part of a trace"):
        prepare(tmp_path, overwrite=True)
    assert files(tmp_path) == [strange]


def test_a_whole_trace_is_replaced_only_on_request(tmp_path: Path) -> None:
    out = trace(tmp_path / "trace", seed=1)
    with pytest.raises(ProblemError, match="holds a trace already; `overwrite` replaces it"):
        prepare(out, overwrite=False)


def test_a_folder_without_a_manifest_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="it has no manifest"):
        read_manifest(tmp_path)
