from __future__ import annotations

from html.parser import HTMLParser

from elastream import ByHand, Decision, Movement, Policy
from elastream.attachment.summary import summary_html, summary_text
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

NAME = "<b>orders</b>"


class Cells(HTMLParser):
    """The texts of a table's cells, and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_an_attachment_is_a_line_and_a_small_table() -> None:
    cluster = SimulatedCluster(even_workload(8, 500.0, name=NAME), ClusterSettings(copy_s=0.5))
    policy = Policy(
        max_executors=4, goal=ByHand(), standbys=1, movement=Movement(standby_bytes=1 << 30)
    )
    decision = Decision(1000, 3, "scale-out", "a < b & c", 2)
    with simulated(cluster, policy) as loop:
        cluster.advance(20)
        line = summary_text(loop.state)
        assert line == f"<Attachment of {NAME}: acts, steady; 2 executors, 25% busy>"
        table = Cells(summary_html(loop.state, [decision], "http://127.0.0.1:1/"))
        assert table.tags.count("tr") == 3
        assert "b" not in table.tags[table.tags.index("table") : table.tags.index("ul")]
        for text in ("simulated", "25%", "4", "4.2 MB", "00:00:01 ", ": a < b & c"):
            assert text in table.texts
        loop.scale_to(3)
        cluster.advance(0.01)
        assert "scale-out from 2 to 3 executors" in summary_text(loop.state)
    assert "let go" in summary_text(loop.state)
