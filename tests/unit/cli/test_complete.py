"""What the shell offers after TAB."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer
from typer._completion_classes import BashComplete

from shmcast.cli.main import app
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox


def offered(*words: str, start: str) -> list[str]:
    shell = BashComplete(typer.main.get_command(app), {}, "shmcast", "_SHMCAST_COMPLETE")
    return [item.value for item in shell.get_completions(list(words), start)]


@pytest.mark.parametrize(
    "words", [("rm",), ("send",), ("recv",), ("top",), ("gc",), ("inject", "copy")]
)
def test_names_of_mailboxes_complete(box: Mailbox, words: tuple[str, ...]) -> None:
    assert offered(*words, start=box.name[:-1]) == [box.name]
    assert offered(*words, start=box.name + "-no") == []


def test_mailboxes_of_a_domain_complete(name: str) -> None:
    with Domain.create(name) as domain:
        domain.create_mailbox("valves")
        assert offered("recv", start=name) == [name, f"{name}/valves"]
        assert offered("gc", start=name) == [name]


def test_nothing_is_offered_where_nothing_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise PermissionError

    for what in ("shmcast.mailbox.survey.surveys", "shmcast.mailbox.server.names"):
        monkeypatch.setattr(what, fail)
    words: list[Callable[[], list[str]]] = [
        lambda: offered("rm", start=""),
        lambda: offered("gc", start=""),
    ]
    assert [one() for one in words] == [[], []]
