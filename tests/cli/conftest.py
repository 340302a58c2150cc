from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from elastream.model.errors import ElastreamError

Refusal = Callable[..., str]
"""Arguments in, the one line out."""


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Refusal]:
    """Make a command that is known to fail before ``starts``, by its whole name, is called."""

    def of(command: Callable[..., None], starts: str) -> Refusal:
        app = typer.Typer()
        app.command()(command)

        def started(*_: object, **__: object) -> None:
            pytest.fail("something was started")

        monkeypatch.setattr(starts, started)

        def run(*arguments: object) -> str:
            with pytest.raises(ElastreamError) as raised:
                app(args=[str(argument) for argument in arguments], standalone_mode=False)
            line = str(raised.value)
            assert len(line.splitlines()) == 1
            return line

        return run

    return of
