"""What the compiler that Spark has for generated code does wrong, the Java texts do without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from elastream.spark.internals.event_tap import EventTap
from elastream.spark.internals.reassignment import reassign_from
from elastream.spark.internals.spark_internals import SparkInternals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [
    each
    for package in ("elastream.spark.internals", "elastream.handover.spark", "elastream.demo")
    for each in files(package).iterdir()
    if each.name.endswith(".java")
]


def caught_and_finally(text: str) -> Iterator[int]:
    """Lines of a ``finally`` that follows a ``catch`` of the same ``try``."""
    code = re.sub(r'//[^\n]*|"(\\.|[^"\\])*"', lambda match: " " * len(match[0]), text)
    opened: list[str] = []
    closed = ""
    for token in re.finditer(r"[{};]|\b(try|catch|finally)\b", code):
        match token[0]:
            case "{":
                opened.append(closed)
            case "}":
                closed = opened.pop()
            case "finally":
                if closed == "catch":
                    yield code.count("\n", 0, token.start()) + 1
                closed = "finally"
            case "try" | "catch" as word:
                closed = word
            case _:
                closed = ""


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_no_try_has_both_catch_and_finally_which_would_run_twice(text: object) -> None:
    assert not list(caught_and_finally(text.read_text("utf-8")))  # type: ignore[attr-defined]


def test_one_that_has_both_is_found() -> None:
    text = 'void f() {\n  try { if (a) { g("}"); } } catch (T e) { h(); }\n  finally { i(); }\n}'
    assert list(caught_and_finally(text)) == [3]
    assert not list(caught_and_finally("try { try { a(); } catch (T e) {} } finally { b(); }"))


def test_texts_do_not_get_in_each_others_way_in_one_thread(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    for _ in range(2):
        assert reassign_from(internals, "an executor that never was") == 0
        EventTap(internals, most=1).close()
        forget_what_was_compiled(internals)


def forget_what_was_compiled(internals: SparkInternals) -> None:
    """Compile more than Spark remembers."""
    codegen = internals.jvm.org.apache.spark.sql.catalyst.expressions.codegen
    nothing = internals.jvm.PythonUtils.toScalaMap(internals.jvm.java.util.HashMap())
    for number in range(120):
        text = f"public Object generate(Object[] r) {{ return Integer.valueOf({number}); }}"
        codegen.CodeGenerator.compile(codegen.CodeAndComment(text, nothing))
