"""Options of the data source "mailbox", checked once; a wrong one is one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shmcast.mailbox.domain import Domain

_Value = TypeVar("_Value", int, float)

_SPARKS_OWN = {"path", "checkpointlocation", "queryname", "outputmode"}  # it hands them on
_KNOWN = {
    "mailbox", "domain", "mailboxes",  # which
    "count", "seconds",  # a batch read ends at
    "spool", "spoolbytes", "linger", "maxrowsperbatch", "partitions", "failondataloss",  # a stream
    "timeout", "envelope", "writer",  # writing
} | _SPARKS_OWN  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """`names` are full: a mailbox by itself, or ``domain/mailbox``, all of one domain."""

    mailbox: str | None
    domain: str | None
    inner: tuple[str, ...]  # of `domain`; none: all that exist when it is opened
    count: int | None
    seconds: float
    spool: str | None
    spool_bytes_max: int
    linger_s: float
    rows_max: int
    partitions: int
    fail_on_data_loss: bool
    timeout_s: float
    envelope: bool
    writer: str

    def names(self) -> list[str]:
        if self.mailbox is not None:
            return [self.mailbox]
        assert self.domain is not None
        with Domain.open(self.domain) as opened:
            inner = self.inner or tuple(opened.mailboxes())
        if not inner:
            raise ValueError(f"the domain {self.domain} has no mailbox: create one first")
        return [f"{self.domain}/{name}" for name in inner]

    def spool_path(self, what: str) -> Path:
        if not self.spool:
            raise ValueError(
                f"{what} needs option 'spool': a directory of this query's own, on this host, "
                "best beside its checkpoint"
            )
        return Path(self.spool).absolute()


def _number(
    options: Mapping[str, str],
    name: str,
    kind: Callable[[str], _Value],
    least: _Value,
    most: _Value,
) -> _Value | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise ValueError(f"option '{name}' must be between {least} and {most}, not {text!r}")
    return value


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise ValueError(f"option '{name}' must be true or false, not {text!r}")
    return text == "true"


def _which(options: Mapping[str, str]) -> tuple[str | None, str | None, tuple[str, ...]]:
    mailbox = options.get("mailbox") or options.get("path")
    domain = options.get("domain")
    if (mailbox is None) == (domain is None):
        raise ValueError(
            "say which mailbox: option 'mailbox' (a name, or domain/mailbox), or option 'domain' "
            "with 'mailboxes' (names with commas; all of them if it is left out)"
        )
    inner = tuple(name.strip() for name in options.get("mailboxes", "").split(",") if name.strip())
    if inner and domain is None:
        raise ValueError("option 'mailboxes' belongs to option 'domain'")
    if len(set(inner)) != len(inner):
        raise ValueError(f"option 'mailboxes' names one twice: {options['mailboxes']}")
    return mailbox, domain, inner


def parse(given: Mapping[str, str]) -> Options:
    options = {key.lower(): value for key, value in given.items()}
    unknown = sorted(set(options) - _KNOWN)
    if unknown:
        known = ", ".join(sorted(_KNOWN - _SPARKS_OWN))
        raise ValueError(f"unknown option '{unknown[0]}': known are {known}")
    mailbox, domain, inner = _which(options)
    count = _number(options, "count", int, 1, 1 << 40)
    seconds = _number(options, "seconds", float, 0.0, 86400.0)
    spool_bytes_max = _number(options, "spoolBytes", int, 1 << 20, 1 << 40)
    linger_s = _number(options, "linger", float, 0.0, 86400.0)
    timeout_s = _number(options, "timeout", float, 0.0, 86400.0)
    return Options(
        mailbox=mailbox,
        domain=domain,
        inner=inner,
        count=count,
        seconds=10.0 if seconds is None else seconds,
        spool=options.get("spool"),
        spool_bytes_max=spool_bytes_max or 256 << 20,
        linger_s=30.0 if linger_s is None else linger_s,
        rows_max=_number(options, "maxRowsPerBatch", int, 1, 1 << 40) or 1_000_000,
        partitions=_number(options, "partitions", int, 1, 1024) or 1,
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        timeout_s=10.0 if timeout_s is None else timeout_s,
        envelope=_flag(options, "envelope", False),
        writer=options.get("writer", ""),
    )
