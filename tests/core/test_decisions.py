from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.core.decisions import VERSION, Decision, Kind, decision_of, line_of
from elastream.core.samples import Sample, TaskSample, sample_line, sample_of
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId

HOLD = Decision(
    at_ms=1000,
    batch=0,
    kind="hold",
    reason="within the band",
    executors=2,
    query="words",
    utilisation=0.5,
    figures={"busiest": 0.75, "backlog": 3},
)
SAMPLE = Sample(
    at_ms=5000,
    executors=("1", "2"),
    wanted=3,
    tasks={
        TaskId("joins", 0, 0): TaskSample("1", 0.25, 1000),
        TaskId("joins", 0, 1): TaskSample("2", 0.5, 2000),
        TaskId("joins", 2, 0): TaskSample("gone", 0.125, 0),
        TaskId("words", 0, 7): TaskSample("2", 0.0, 12),
    },
    rows_per_s={"joins": 12.5, "words": 0.0},
)

decisions = st.builds(
    Decision,
    at_ms=st.none() | st.integers(0, 10**15),
    batch=st.none() | st.integers(0, 10**9),
    kind=st.sampled_from(get_args(Kind)),
    reason=st.text(),
    executors=st.integers(0, 1000),
    query=st.none() | st.text(),
    utilisation=st.none() | st.floats(0, 10),
    figures=st.dictionaries(st.text(), st.integers(0, 10**15) | st.floats(0, 1e50), max_size=4),
)
names = st.text(max_size=3)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    alive = draw(st.lists(names, unique=True, max_size=4))
    ids = st.builds(TaskId, names, st.integers(0, 9), st.integers(0, 99))
    places = st.sampled_from([*alive, "gone"])
    thousandths = st.integers(0, 9999).map(lambda number: number / 1000)
    tasks = st.builds(TaskSample, places, thousandths, st.integers(0, 10**12))
    return Sample(
        at_ms=draw(st.integers(0, 10**15)),
        executors=tuple(alive),
        wanted=draw(st.integers(0, 1000)),
        tasks=dict(sorted(draw(st.dictionaries(ids, tasks, max_size=8)).items())),
        rows_per_s=draw(st.dictionaries(names, st.integers(0, 10**6).map(float), max_size=3)),
    )


@given(decisions)
@settings(max_examples=200)
def test_a_decision_is_read_as_it_was_written(decision: Decision) -> None:
    assert decision_of(json.loads(line_of(decision))) == decision


@given(samples())
@settings(max_examples=200)
def test_a_sample_is_read_as_it_was_written(sample: Sample) -> None:
    assert sample_of(json.loads(sample_line(sample))) == sample


@pytest.mark.parametrize("line", [line_of(HOLD), sample_line(SAMPLE)])
def test_a_line_is_one_object_that_begins_with_its_version(line: str) -> None:
    assert "\n" not in line
    assert line.replace(" ", "").startswith(f'{{"v":{VERSION},"at_ms":')
    assert json.loads(line)["v"] == VERSION


def test_a_sample_shows_tasks_in_columns_and_executors_by_number() -> None:
    assert json.loads(sample_line(SAMPLE)) == {
        "v": VERSION,
        "at_ms": 5000,
        "kind": "sample",
        "alive": 2,
        "wanted": 3,
        "executors": ["1", "2", "gone"],
        "rows_per_s": {"joins": 12.5, "words": 0.0},
        "load": {
            "joins": {
                "0": {
                    "partition": [0, 1],
                    "executor": [0, 1],
                    "work": [0.25, 0.5],
                    "state": [1000, 2000],
                },
                "2": {"partition": [0], "executor": [2], "work": [0.125], "state": [0]},
            },
            "words": {"0": {"partition": [7], "executor": [1], "work": [0.0], "state": [12]}},
        },
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "dance"),
        ("kind", None),
        ("reason", 7),
        ("query", 7),
        ("query", 0),
        ("query", []),
        ("figures", [1]),
        ("at_ms", "now"),
        ("at_ms", -1),
        ("batch", 1.5),
        ("executors", None),
        ("executors", True),
        ("utilisation", -0.1),
        ("utilisation", float("nan")),
    ],
)
def test_a_record_that_is_no_decision_names_its_field(field: str, value: Any) -> None:
    record = {**json.loads(line_of(HOLD)), field: value}
    with pytest.raises(ProblemError) as caught:
        decision_of(record)
    assert caught.value.field == field


def test_a_wrong_figure_is_named() -> None:
    record = {**json.loads(line_of(HOLD)), "figures": {"busiest": "much"}}
    with pytest.raises(ProblemError, match=r"figures\.busiest: 'much' is not a number"):
        decision_of(record)


@pytest.mark.parametrize(
    "field", ["kind", "reason", "figures", "query", "batch", "at_ms", "utilisation", "executors"]
)
def test_what_a_decision_lacks_is_named(field: str) -> None:
    record = json.loads(line_of(HOLD))
    del record[field]
    with pytest.raises(ProblemError) as caught:
        decision_of(record)
    assert str(caught.value) == f"{field}: is missing"


def columns(**changed: Any) -> dict[str, Any]:
    whole = {"partition": [0], "executor": [0], "work": [1], "state": [1]}
    return {"load": {"q": {"0": {**whole, **changed}}}}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"executors": "12"}, "executors"),
        ({"executors": [1, 2]}, "executors"),
        ({"alive": 4}, "alive"),
        ({"wanted": -1}, "wanted"),
        ({"at_ms": None}, "at_ms"),
        ({"rows_per_s": {"q": "fast"}}, "rows_per_s.q"),
        ({"load": [1]}, "load"),
        ({"load": {"q": [1]}}, "load.q"),
        ({"load": {"q": {"first": {}}}}, "load.q"),
        ({"load": {"q": {"\u00b2": {}}}}, "load.q"),
        ({"load": {"q": {"0": {"partition": [0]}}}}, "load.q.0"),
        (columns(state=[]), "load.q.0"),
        (columns(work=["much"]), "load.q.0.work[0]"),
        (columns(executor=[3]), "load.q.0.executor"),
        (columns(executor=[0.5]), "load.q.0.executor"),
        (columns(partition=[0.5]), "load.q.0.partition"),
    ],
)
def test_a_record_that_is_no_sample_names_its_field(changed: dict[str, Any], field: str) -> None:
    record = {**json.loads(sample_line(SAMPLE)), **changed}
    with pytest.raises(ProblemError) as caught:
        sample_of(record)
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["executors", "load", "rows_per_s", "at_ms", "alive", "wanted"])
def test_what_a_sample_lacks_is_named(field: str) -> None:
    record = json.loads(sample_line(SAMPLE))
    del record[field]
    with pytest.raises(ProblemError) as caught:
        sample_of(record)
    assert str(caught.value) == f"{field}: is missing"
