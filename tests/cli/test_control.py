"""``elastream control``: what is wrong is said in one line, before anybody is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.control.steered import steered

from elastream.cli.main import main
from elastream.control.local_door import LocalDoor


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("run.sock reboot", "COMMAND: 'reboot' is not one; use status, scale, pause"),
        ("run.sock scale", "scale: takes a number of executors"),
        ("run.sock scale four", "scale: takes a number of executors"),
        ("run.sock scale 1 2", "scale: takes a number of executors"),
        ("run.sock pause now", 'pause: takes nothing with it, not "now"'),
        ("run.sock set", "set: takes FIELD=VALUE, each field once"),
        ("run.sock set tau", "set: 'tau' is not FIELD=VALUE"),
        ("run.sock set tau=1 tau=2", "set: takes FIELD=VALUE, each field once"),
        ("run.sock status", "run.sock: there is no such socket"),
        ("http://localhost:1 status", "--token-file: is needed for a page"),
        ("http:// status --token-file token", "target: 'http://' is not a URL with a host"),
    ],
)
def test_a_command_that_cannot_be_given_is_refused(
    arguments: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("token").touch(mode=0o600)
    Path("token").write_text("of-sixteen-or-more-characters")
    assert main(["control", *arguments.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"elastream: {why}")


def test_answers_are_for_people_and_with_json_for_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "run.sock")
    with steered() as loop:
        door = LocalDoor(Path(path), loop.door)
        assert main(["control", path, "scale", "3"]) == 0
        assert capsys.readouterr().out.startswith("scale-out to 3: asked for by ")
        assert main(["control", path, "set", "tau=0.4", "max_executors=6"]) == 0
        assert "max_executors 6 instead of 4" in capsys.readouterr().out
        assert main(["control", path, "status", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert (answer["v"], answer["taken"]) == (1, True)
        assert answer["status"]["loop"]["most"] == 6
        assert main(["control", path, "scale", "9", "--json"]) == 2
        shown = capsys.readouterr()
        assert json.loads(shown.out)["taken"] is False
        assert len(shown.err.splitlines()) == 1
        door.close()
