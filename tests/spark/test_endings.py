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
