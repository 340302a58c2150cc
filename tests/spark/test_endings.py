from __future__ import annotations

from elastream.spark.observe.endings import ending


def test_the_line_of_a_failed_query_is_the_reason_without_the_frame_around_it() -> None:
    reason = "org.apache.kafka.common.errors.TimeoutException: Call(callName=describeTopics)"
    framed = f"[STREAM_FAILED] Query [id = 7f, runId = 9a] terminated with exception: {reason}"
    assert ending(f"{framed} SQLSTATE: XXKST\n\tat org.apache.kafka.Call") == reason
    assert ending(f"{framed.removeprefix('[STREAM_FAILED] ')} SQLSTATE: XXKST") == reason
    assert ending(f"java.util.concurrent.ExecutionException: {reason}") == reason
    assert ending(reason) == reason
    assert len(ending("x" * 1000)) == 200


def test_of_a_function_that_failed_it_is_what_the_function_raised() -> None:
    proxy = "An exception was raised by the Python Proxy. Return Message: "
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in write\n    raise it\n'
    plan = "\n\n=== Streaming Query ===\nIdentifier: sums\nValueError: not this\n"
    assert ending(f"{proxy}{trace}ValueError: full{plan}") == "ValueError: full"
    as_the_digest_tells = f"{proxy}{trace}ValueError: full{plan}".replace("\n", "\v")
    assert ending(as_the_digest_tells) == "ValueError: full"
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert ending(f"{proxy}{trace}KeyError: 1\n{during}{trace}OSError: 2{plan}") == "OSError: 2"
    task = "Job aborted due to stage failure: PythonException: "
    assert ending(f"{task}{trace}ZeroDivisionError: 0\n\n\tat a.b\nDriver stacktrace:") == (
        "ZeroDivisionError: 0"
    )
    called = "py4j.protocol.Py4JJavaError: An error occurred while calling o64.save.\n"
    java = ": java.io.IOException: No space left on device\n\tat java.base/java.io"
    assert ending(f"{proxy}{trace}{called}{java}{plan}") == (
        "java.io.IOException: No space left on device"
    )


def test_an_end_that_says_little_is_reported_as_it_is() -> None:
    assert ending(None) == "the reason is not known"
    assert ending("") == ""
    assert ending("a\nTraceback (most recent call last):\n  cut") == "a"
