from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from elastream import Decision
from elastream.cli.log import log
from elastream.core.decision_log import DecisionLog
from elastream.model.errors import ProblemError

app = typer.Typer()
app.command()(log)

AT_MS = 1_750_000_000_000  # 15 June 2025, 15:06:40 UTC

STORY = [
    Decision(None, None, "attach", "attached, acts: 1 to 4 executors", 2),
    Decision(AT_MS, 0, "hold", "no stateful task has been measured yet", 2),
    Decision(AT_MS + 1000, 1, "hold", "within the band", 2, 0.65),
    Decision(AT_MS + 2000, 2, "hold", "within the band", 2, 0.72),
    Decision(AT_MS + 3000, 3, "hold", "batch 1 of 2 to say so", 2, 0.85, {"wanted": 3}),
    Decision(AT_MS + 4000, 4, "scale-out", "scale-out to 3: too busy [x]", 2, 0.91, {"wanted": 3}),
    Decision(AT_MS + 5000, 5, "done", "scale-out from 2 to 3 executors done", 3),
]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "decisions.jsonl"
    written = DecisionLog(path)
    for decision in STORY:
        written.append(decision)
    return path


def shown(*arguments: str, columns: int = 140) -> str:
    result = CliRunner().invoke(
        app, list(arguments), env={"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    )
    assert result.exception is None, result.exception
    return result.output


def test_the_story_has_a_row_for_every_turn_and_one_for_batches_that_held(story: Path) -> None:
    rows = [" ".join(line.split()) for line in shown(str(story)).splitlines()]
    assert rows == [
        "time (UTC) batch executors utilisation decision reason",
        "2 attach attached, acts: 1 to 4 executors",
        "06-15 15:06:40 0-2 2 0.65-0.72 hold x3 within the band",
        "15:06:43 3 2 0.85 hold batch 1 of 2 to say so",
        "15:06:44 4 2 0.91 scale-out scale-out to 3: too busy [x]",
        "15:06:45 5 3 done scale-out from 2 to 3 executors done",
    ]


def test_json_prints_every_record(story: Path) -> None:
    records = [json.loads(line) for line in shown(str(story), "--json").splitlines()]
    assert [record["kind"] for record in records] == [decision.kind for decision in STORY]
    assert records[4]["figures"] == {"wanted": 3}


def test_a_narrow_terminal_loses_no_word_of_the_reason(story: Path) -> None:
    words = shown(str(story), columns=80).split()
    for word in ["scale-out", "from", "2", "to", "3", "executors", "done"]:
        assert word in words


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_torn_line_is_skipped_with_a_warning(story: Path, option: list[str]) -> None:
    whole = shown(str(story), *option)
    with story.open("a") as file:
        file.write('{"v": 2, "at_')
    torn = f"{story}, line {len(STORY) + 1} was torn by a crash or a full disk and is skipped"
    assert shown(str(story), *option) == f"{whole}{torn}\n"


def test_queries_are_named_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    written = DecisionLog(path)
    for query, number in (("a", 1), ("b", 7), ("a", 2)):
        written.append(Decision(AT_MS, number, "hold", "within the band", 2, 0.5, query=query))
    written.append(Decision(AT_MS, 8, "migrate", "2 tasks to move", 2, query="b"))
    rows = [" ".join(line.split()) for line in shown(str(path)).splitlines()]
    assert rows == [
        "time (UTC) query batch executors utilisation decision reason",
        "06-15 15:06:40 2 queries 2 0.50 hold x3 within the band",
        "15:06:40 b 8 2 migrate 2 tasks to move",
    ]


def test_a_time_that_no_calendar_has_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    DecisionLog(path).append(Decision(10**30, 7, "hold", "far away", 2))
    assert "far away" in shown(str(path))


@pytest.mark.parametrize("option", [[], ["--json"]])
@pytest.mark.parametrize("text", [None, "", "a,b\n1,2\n"])
def test_a_file_that_is_no_log_is_one_clear_line(
    tmp_path: Path, text: str | None, option: list[str]
) -> None:
    path = tmp_path / "decisions.jsonl"
    if text is not None:
        path.write_text(text)
    result = CliRunner().invoke(app, [str(path), *option])
    assert isinstance(result.exception, ProblemError)
    assert str(path) in str(result.exception)
    assert result.output == ""
