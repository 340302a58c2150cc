from __future__ import annotations

from pathlib import Path

import pytest

from elastream.doctor.program_text import ProgramText
from elastream.model.errors import ProblemError


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("SparkSession.builder.config('spark.a', 'b')", {"spark.a": "b"}),
        ("SparkSession.builder.config('spark.a', True)", {"spark.a": "true"}),
        ("SparkSession.builder.config('spark.a', 4)", {"spark.a": "4"}),
        ("SparkConf().set('spark.a', 'b')", {"spark.a": "b"}),
        ("SparkConf().setMaster('yarn')", {"spark.master": "yarn"}),
        ("SparkSession.builder.master('local[2]')", {"spark.master": "local[2]"}),
        ("SparkSession.builder.remote('sc://x')", {"spark.remote": "sc://x"}),
        ("SparkContext('local[2]', 'x')", {"spark.master": "local[2]"}),
        ("pyspark.SparkContext(appName='x', master='yarn')", {"spark.master": "yarn"}),
        ("SparkContext()", {}),
        ("SparkSession.builder.config('spark.a', value)", {}),
        ("SparkSession.builder.config(conf=conf).master(where)", {}),
        ("cache.set('key', 'value')", {}),
    ],
)
def test_settings_that_are_written_out_are_seen(source: str, settings: dict[str, str]) -> None:
    assert ProgramText.of(source).settings == settings


def test_triggers_have_their_lines() -> None:
    source = "a.trigger(once=True)\n\nb.trigger(realTime='5 minutes')\nc.trigger(**some)\n"
    assert ProgramText.of(source).triggers == (("once", 1), ("realTime", 3))


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"x = 1\ny = = 2\n", "is not Python in line 2: "), (b"\x00", ""), (b"\xff\xfe", "")],
)
def test_what_is_not_python_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_bytes(content)
    with pytest.raises(ProblemError) as raised:
        ProgramText.read(file)
    assert raised.value.field == str(file)
    assert raised.value.why.startswith(says or "is not Python")
