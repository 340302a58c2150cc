"""The page in a real browser: on a real run, on a cut line, on a thousand partitions.

``ELASTREAM_PICTURES=FOLDER`` keeps what the browser saw; the README and the docs show it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.steered import Steered
from tests.page.runs import begun
from tests.page_live.browser import Browser, browser, missing
from tests.page_live.line import line_to

from elastream import Movement, Policy, read_decisions
from elastream.page.run import Run
from elastream.page.server import PageDoor, PageServer
from elastream.page.tail import Tail
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    rate_steps,
    simulated,
)

pytestmark = [
    pytest.mark.components,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

FREE = ("127.0.0.1", 0)
RECORDS = "return +(document.documentElement.dataset.records || 0)"
PLACES = """
const rows = [...document.querySelectorAll('#map-table tbody tr')];
return Object.fromEntries(rows.map(row => [...row.cells].slice(0, 2).map(c => c.innerText)));
"""


@pytest.fixture
def tab() -> Iterator[Browser]:
    with browser(height=1100) as opened:
        yield opened


TOKEN = "a-token-that-a-person-was-given"


def keep(tab: Browser, name: str) -> None:
    folder = os.environ.get("ELASTREAM_PICTURES")
    if folder:
        tab.picture(Path(folder) / f"{name}.png")


def feed(tab: Browser, kind: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(item => item.innerText)"
    return list(tab.run(script, f'#feed li[data-kind="{kind}"]'))


def test_the_page_steers_with_its_token_and_not_without(tab: Browser) -> None:
    run = Run("steered")
    cluster, loop = begun(run)
    door = PageDoor(Steered(cluster, loop).door, TOKEN)
    with loop, PageServer(run, FREE, door=door) as page:
        cluster.advance(30)
        tab.open(page.url)
        tab.until("return !document.querySelector('#steer').hidden", "commands are offered")
        press, said = "document.querySelector('#steer-pause').click()", "#steer-answer"
        tab.run(press)
        tab.until(f"return document.querySelector('{said}').innerText", "an answer")
        assert tab.text(said) == "the token is missing or wrong"
        assert loop.of("pause") == []
        tab.complaints()  # the browser's own, of the status 401
        tab.run("document.querySelector('#steer-token').value = arguments[0]", TOKEN)
        tab.run(press)
        tab.until(f"return /^paused/.test(document.querySelector('{said}').innerText)", "a pause")
        assert len(loop.of("pause")) == 1
        cluster.advance(2)
        tab.until("return document.querySelector('#mode').innerText === 'paused'", "the badge")
        tab.until("return !document.querySelector('#guards').hidden", "what holds it back")
        assert tab.complaints() == []
    with PageServer(Run("read-only"), FREE) as page:
        tab.open(page.url)
        tab.until("return document.querySelector('#title').innerText === 'read-only'", "it is up")
        assert tab.run("return document.querySelector('#steer').hidden")


def test_a_real_run_is_seen_to_scale_out_and_to_say_why(tab: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elastream.cli.main", "demo", "--page", "0"]
    with (tmp_path / "said").open("w+") as said:
        demo = subprocess.Popen(
            [*command, "--log", "decisions.jsonl"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        try:
            assert demo.stdout is not None
            url = next(found[0] for line in demo.stdout if (found := re.search(r"http\S+", line)))
            tab.open(url)
            tab.until("return document.querySelector('#sentence').innerText", "it says something")
            places = tab.until(f"{PLACES}", "partitions are on the map")
            tab.until(
                "return /Scaling out/.test(document.querySelector('#sentence').innerText)",
                "a scale-out is seen",
            )
            # A rebalance may come before it, with moves and an end of its own.
            decided = "return document.querySelector('#feed li[data-kind=\"scale-out\"]')"
            tab.until(decided, "a scale-out is decided")
            keep(tab, "asked")
            tab.until(
                "return /mov/i.test(document.querySelector('#sentence').innerText)",
                "state is seen to move",
            )
            keep(tab, "moving")
            tab.until(
                "return [...document.querySelectorAll('#feed li[data-kind=\"done\"]')]"
                ".some(item => /scale-out from/.test(item.innerText))",
                "it is done",
            )
            tab.until(
                f"const was = arguments[0], now = (() => {{{PLACES}}})(); "
                "return Object.keys(now).some(task => now[task] !== was[task])",
                "a partition is elsewhere on the map",
                places,
            )
            keep(tab, "done")
            report = feed(tab, "scale-out")
            assert tab.complaints() == []
            elsewhere = [each for each in tab.requests() if not each.startswith((url, "data:"))]
            assert elsewhere == []
            demo.stdout.read()
            assert demo.wait(600) == 0
        finally:
            demo.kill()
            demo.wait()
            assert demo.stdout is not None
            demo.stdout.close()
    decisions = list(read_decisions(tmp_path / "decisions.jsonl"))
    first = next(each for each in decisions if each.kind == "scale-out")
    assert any(first.reason in text for text in report)
    tab.until(
        "return /finished|over|ended/i.test(document.querySelector('#connection').innerText)",
        "the run is said to be over",
    )


def test_a_line_that_is_cut_is_mended_and_nothing_is_missed(tab: Browser) -> None:
    run = Run("a run")
    cluster, loop = begun(run)
    with loop, PageServer(run, FREE) as server, line_to(server.url) as line:
        cluster.advance(20)
        tab.open(line.url)
        before = tab.until(RECORDS, "records have come")
        line.cut()
        tab.until(
            "return /reconnect|lost/i.test(document.querySelector('#connection').innerText)",
            "the loss is shown",
        )
        loop.run_until("done")
        line.mend()
        tab.until(
            "return document.querySelector('#feed li[data-kind=\"done\"]')",
            "what happened meanwhile is shown",
        )
        assert tab.run(RECORDS) > before
        tab.until(
            "return !/reconnect|lost/i.test(document.querySelector('#connection').innerText)",
            "it is live again",
        )
        where = {
            str(task): node
            for task, node in ((t, loop.observed.where(t)) for t, _ in loop.observed.tasks())
        }
        tab.until(
            f"const now = (() => {{{PLACES}}})(); const was = arguments[0]; "
            "return Object.keys(was).every(task => now[task] === was[task])",
            "the map is the loop's own",
            where,
        )


def test_a_run_that_is_over_is_scrubbed_by_keyboard(tab: Browser, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    cluster, loop = begun(log=path)
    with loop:
        cluster.advance(120)
    with PageServer(Tail(path).run, FREE) as server:
        tab.open(server.url)
        tab.until(RECORDS, "records have come")
        last = tab.text("#sentence")
        tab.run("document.querySelector('#scrubber').focus()")
        tab.press("\ue011")  # Home
        tab.until(
            "return document.querySelector('#sentence').innerText !== arguments[0]",
            "an earlier moment is shown",
            last,
        )
        assert tab.run("return +document.querySelector('#scrubber').value") == tab.run(
            "return +document.querySelector('#scrubber').min"
        )
        tab.press("\ue010")  # End
        tab.until(
            "return document.querySelector('#sentence').innerText === arguments[0]",
            "the last moment is shown again",
            last,
        )
        assert tab.complaints() == []


def large_log(path: Path) -> None:
    tasks = tuple(SimulatedTask(0, j, 1 / 1000, 1.0, 30_000_000 + 1000 * j) for j in range(1000))
    work = Workload(tasks, rate_steps({0: 30_000, 20: 60_000}), name="large")
    cluster = SimulatedCluster(work, ClusterSettings(executors=50))
    with simulated(
        cluster, Policy(max_executors=100, movement=Movement(moves_per_batch=None)), log=path
    ):
        cluster.advance(60)


def test_a_thousand_partitions_on_a_hundred_executors_are_drawn_as_they_change(
    tab: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "decisions.jsonl"
    large_log(path)
    lines = [line for line in path.read_text().splitlines() if '"kind":"scene"' in line]
    assert len(json.loads(lines[-1]).get("tasks", {})) < 1000
    with PageServer(Tail(path).run, FREE) as server:
        tab.open(server.url)
        tab.until(RECORDS, "records have come")
        tab.until("return document.querySelector('#map-table')", "the map has its table")
        rows = tab.until("return document.querySelectorAll('#map-table tbody tr').length", "rows")
        assert rows >= 50
        for part in (0.2, 0.5, 0.9):
            tab.run(
                "const bar = document.querySelector('#scrubber');"
                "bar.value = +bar.min + arguments[0] * (bar.max - bar.min);"
                "bar.dispatchEvent(new Event('input', {bubbles: true}))",
                part,
            )
        frames = tab.until(
            "return window.elastreamFrames && window.elastreamFrames.count > 2 "
            "&& window.elastreamFrames",
            "frames are drawn",
        )
        print(f"{frames['count']} frames, {frames['ms'] / frames['count']:.1f} ms each")
        keep(tab, "thousand")
        assert tab.complaints() == []


def test_a_name_is_never_more_than_text(tab: Browser) -> None:
    name = "<img src=x onerror=\"document.title='hacked'\">&amp;"
    run = Run(name)
    work = Workload(
        tuple(SimulatedTask(0, j, 0.25, 1.0, 1 << 20) for j in range(4)),
        rate_steps({0: 1500, 10: 3500}),
        name=name,
    )
    cluster = SimulatedCluster(work)
    loop = simulated(cluster, Policy(max_executors=4))
    loop.add_log(run.take)
    with loop, PageServer(run, FREE) as server:
        cluster.advance(60)
        tab.open(server.url)
        tab.until(RECORDS, "records have come")
        tab.until("return document.querySelector('#feed li')", "decisions are shown")
        assert name in tab.run("return document.body.textContent")
        assert tab.run("return document.querySelectorAll('img[onerror]').length") == 0
        assert tab.run("return document.title") != "hacked"
        assert tab.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_is_dark_where_that_is_liked(tab: Browser, dark: bool) -> None:
    run = Run("a run")
    cluster, loop = begun(run)
    with loop, PageServer(run, FREE) as server:
        cluster.advance(60)
        tab.emulate(
            "Emulation.setDeviceMetricsOverride",
            {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.emulate("Emulation.setEmulatedMedia", {"features": [scheme]})
        tab.open(server.url)
        tab.until(RECORDS, "records have come")
        assert tab.run("return document.scrollingElement.scrollWidth") <= 390
        colour = tab.run("return getComputedStyle(document.body).backgroundColor")
        shade = sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
        assert shade < 60 if dark else shade > 200
        keep(tab, f"phone-{scheme['value']}")


def test_who_does_not_see_it_is_reported(tab: Browser) -> None:
    run = Run("a run")
    cluster, loop = begun(run)
    with loop, PageServer(run, FREE) as server:
        cluster.advance(30)
        tab.open(server.url)
        tab.until(RECORDS, "records have come")
        nameless = tab.run("""
            const named = e => e.innerText || e.ariaLabel || e.title || e.labels?.length
                || e.getAttribute('aria-labelledby');
            return [...document.querySelectorAll('button, input, select, a')]
                .filter(e => !named(e)).map(e => e.outerHTML);
        """)
        assert nameless == []
        assert tab.run("return document.documentElement.lang") == "en"
        assert tab.run("return document.querySelectorAll('main, [role=main]').length") == 1
        assert tab.run("return !!document.querySelector('[aria-live]')")
        assert tab.run("return [...document.querySelectorAll('h1')].length") == 1
