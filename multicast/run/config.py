"""`cluster.toml`: who is in which group, on which host, ordered by which engine.

docs/cluster-toml.md is the page of the file. A mistake is refused before anything is started, with
its line and with what to write instead.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shmcast.errors import ConfigError
from shmcast.multicast.protocols.core import GroupId, ProcessId
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.run.options import (
    ENGINES,
    OPTIONS,
    TICKS_PER_MS,
    ticks_of,
    timing_of,
)
from shmcast.multicast.run.toml_lines import line_of

LOCAL = "local"  # the host of a file without [hosts]
NAME_MAX = 40
GROUPS_MAX = 48  # mailboxes of one domain
REPLICAS_PER_HOST_MAX = 48
COPIES_MAX = 8
MESSAGE_SIZE_MAX = 1 << 24
PORT_MAX = 65_535

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{NAME_MAX - 1}}}")
_APP = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_KEYS: dict[str, tuple[str, ...]] = {
    "cluster": ("name", "engine", "app", "copies", "message_size", "trace", "keys"),
    "host": ("address", "port"),
}
_TABLES = ("cluster", "groups", "hosts", "options", "apps")


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    address: str | None = None  # None: the only host
    port: int | None = None  # of its first replica; the next ones follow


@dataclass(frozen=True, slots=True)
class Replica:
    name: str  # "g1.a"
    proc: ProcessId
    group: str
    host: str
    port: int | None  # None: the only host
    app: str | None  # "module:name"; None: deliveries are taken and dropped


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    replicas: tuple[Replica, ...]


@dataclass(frozen=True)
class ClusterConfig:
    path: Path
    name: str
    engine: str
    hosts: tuple[Host, ...]
    groups: tuple[Group, ...]
    copies: int  # of each mailbox
    message_size: int  # the largest payload of a client, in bytes
    options: Mapping[str, int]  # times in ticks of 1 µs
    trace: Path | None
    keys: Path | None  # where `shmcast keys` put them; None: one host needs none

    @cached_property
    def topology(self) -> Topology:
        """Members only: clients are no processes of a protocol."""
        return Topology(tuple(tuple(r.proc for r in group.replicas) for group in self.groups))

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """In the order of their process ids."""
        return tuple(replica for group in self.groups for replica in group.replicas)

    @cached_property
    def _group_ids(self) -> dict[str, GroupId]:
        return {group.name: number for number, group in enumerate(self.groups)}

    @cached_property
    def _by_name(self) -> dict[str, Replica]:
        return {replica.name: replica for replica in self.replicas}

    def group_id(self, name: str) -> GroupId:
        found = self._group_ids.get(name)
        if found is None:
            raise ValueError(
                f"{self.path}: there is no group {name!r}; there are {', '.join(self._group_ids)}"
            )
        return found

    def replica(self, name: str) -> Replica:
        found = self._by_name.get(name)
        if found is None:
            raise ValueError(
                f"{self.path}: there is no replica {name!r}; there are {', '.join(self._by_name)}"
            )
        return found

    def host(self, name: str) -> Host:
        for host in self.hosts:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts)
        raise ValueError(f"{self.path}: there is no host {name!r}; there are {known}")

    def on_host(self, name: str) -> tuple[Replica, ...]:
        self.host(name)
        return tuple(replica for replica in self.replicas if replica.host == name)

    @property
    def one_host(self) -> bool:
        return len({replica.host for replica in self.replicas}) == 1

    @cached_property
    def fingerprint(self) -> str:
        """Equal where two processes agree on everything that must be alike in a cluster."""
        shared = [
            self.name,
            self.engine,
            [[h.name, h.address, h.port] for h in self.hosts],
            [[r.name, r.group, r.host] for r in self.replicas],
            self.message_size,
            sorted(self.options.items()),
        ]
        return hashlib.sha256(json.dumps(shared).encode()).hexdigest()[:32]


def load(path: str | os.PathLike[str]) -> ClusterConfig:
    """Raises ConfigError for a file that says something wrong, FileNotFoundError for none."""
    file = Path(path).resolve()
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}:1: not UTF-8 ({error.reason}): save it as UTF-8") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_of_toml(str(path), text, str(error))) from None
    return _Reader(file, str(path), text, values).read()


def _is_ipv6(address: str) -> bool:
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True


def _of_toml(path: str, text: str, problem: str) -> str:
    where = re.search(r"\(at (?:line (\d+)|end of document)", problem)
    line = where[1] if where and where[1] else str(max(1, len(text.splitlines())))
    said = re.sub(r"\s*\(at .*\)$", "", problem)
    return f'{path}:{line}: not TOML: {said}; a line is  key = "value"  or  [table]'


class _Reader:
    """Reads one file, table after table; the first mistake ends it."""

    def __init__(self, file: Path, shown: str, text: str, values: dict[str, Any]) -> None:
        self.file, self.shown, self.text, self.values = file, shown, text, values

    def wrong(self, at: Sequence[str], what: str, *, value: object = None) -> ConfigError:
        line = line_of(self.text, at, value)
        return ConfigError(f"{self.shown}:{line}: {'.'.join(at)}: {what}")

    def read(self) -> ClusterConfig:
        self._known((), self.values, _TABLES, "table")
        cluster = self._table("cluster", '[cluster]\nname = "bank"')
        self._known(("cluster",), cluster, _KEYS["cluster"], "key")
        name = self._name(("cluster", "name"), cluster.get("name"), 'name = "bank"')
        hosts = self._hosts()
        groups = self._groups(hosts)
        engine = self._engine(cluster.get("engine"), groups)
        several = len({r.host for g in groups for r in g.replicas}) > 1
        return ClusterConfig(
            path=self.file,
            name=name,
            engine=engine,
            hosts=hosts,
            groups=groups,
            copies=self._int(
                ("cluster", "copies"), cluster.get("copies", 3 if engine == "eager" else 1),
                1, COPIES_MAX,
            ),
            message_size=self._int(
                ("cluster", "message_size"), cluster.get("message_size", 4096), 1, MESSAGE_SIZE_MAX
            ),
            options=self._options(engine),
            trace=self._trace(engine, cluster.get("trace")),
            keys=self._path(("cluster", "keys"), cluster.get("keys", "keys" if several else None)),
        )  # fmt: skip

    # Kinds of values ----------------------------------------------------------------------

    def _known(
        self, at: tuple[str, ...], given: Mapping[str, Any], known: Sequence[str], what: str
    ) -> None:
        for key in given:
            if key not in known:
                raise self.wrong((*at, key), f"no such {what}; write one of {', '.join(known)}")

    def _table(self, name: str, example: str) -> dict[str, Any]:
        found = self.values.get(name)
        if not isinstance(found, dict) or not found:
            shown = example.replace("\n", " and below it ")
            raise self.wrong((name,), f"it is missing or empty; write {shown}")
        return found

    def _optional(self, name: str, example: str) -> dict[str, Any]:
        found = self.values.get(name, {})
        if not isinstance(found, dict):
            raise self.wrong((name,), f"must be a table; write [{name}] and below it {example}")
        return found

    def _name(self, at: tuple[str, ...], given: object, example: str) -> str:
        if given is None:
            raise self.wrong(at, f"it is missing; write {example}")
        if not isinstance(given, str) or not _NAME.fullmatch(given):
            raise self.wrong(
                at,
                f"{given!r} is no name; write 1 to {NAME_MAX} letters, digits, '_' and '-', "
                f"beginning with a letter or digit, as in {example}",
            )
        return given

    def _int(self, at: tuple[str, ...], given: object, low: int, high: int) -> int:
        if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
            raise self.wrong(at, f"{given!r} is out of range; write a number from {low} to {high}")
        return given

    def _path(self, at: tuple[str, ...], given: object) -> Path | None:
        if given is None:
            return None
        if not isinstance(given, str) or not given or "\0" in given:
            raise self.wrong(at, f'{given!r} is no directory; write {at[-1]} = "directory"')
        return self.file.parent / Path(given).expanduser()

    # Tables -------------------------------------------------------------------------------

    def _hosts(self) -> tuple[Host, ...]:
        example = 'h1 = { address = "10.0.0.1", port = 7000 }'
        given = self._optional("hosts", example)
        return tuple(self._host(name, value, example) for name, value in given.items()) or (
            Host(LOCAL),
        )

    def _host(self, name: str, given: object, example: str) -> Host:
        at = ("hosts", name)
        self._name(at, name, example)
        if not isinstance(given, dict):
            raise self.wrong(at, f"must be a table; write {example}")
        self._known(at, given, _KEYS["host"], "key")
        address = given.get("address")
        if not isinstance(address, str) or not re.fullmatch(r"[A-Za-z0-9.:_-]{1,253}", address):
            raise self.wrong(at, f"address {address!r} is none; write {example}")
        if ":" in address and not _is_ipv6(address):
            raise self.wrong(at, f"address {address!r} is none; a port is written apart: {example}")
        return Host(name, address, self._int((*at, "port"), given.get("port"), 1, PORT_MAX))

    def _groups(self, hosts: tuple[Host, ...]) -> tuple[Group, ...]:
        given = self._table("groups", '[groups]\ng1 = ["a", "b", "c"]')
        if len(given) > GROUPS_MAX:
            raise self.wrong(("groups",), f"{len(given)} groups; write at most {GROUPS_MAX}")
        apps = self._apps(list(given))
        used = {host.name: 0 for host in hosts}
        groups: list[Group] = []
        proc = 0
        for name, members in given.items():
            at = ("groups", name)
            self._name(at, name, 'g1 = ["a", "b", "c"]')
            if not isinstance(members, list) or not members:
                raise self.wrong(at, f'no replicas in it; write {name} = ["a", "b", "c"]')
            replicas = []
            for member in members:
                replicas.append(
                    self._replica(name, member, proc, hosts, used=used, app=apps.get(name))
                )
                proc += 1
            self._no_doubles(at, members, replicas)
            groups.append(Group(name, tuple(replicas)))
        self._fits_hosts(hosts, used)
        return tuple(groups)

    def _replica(
        self,
        group: str,
        given: object,
        proc: ProcessId,
        hosts: tuple[Host, ...],
        *,
        used: dict[str, int],
        app: str | None,
    ) -> Replica:
        at = ("groups", group)
        if not isinstance(given, str):
            raise self.wrong(at, f'{given!r} is no replica; write "a", or "a@h1" with its host')
        short, has_host, host_name = given.partition("@")
        if not _NAME.fullmatch(short):
            raise self.wrong(at, f'{given!r} is no replica; write "a" or "a@h1"', value=given)
        known = ", ".join(used)
        if not has_host:
            if len(hosts) > 1:
                text = f'{given!r} names no host; write "{short}@HOST" with one of {known}'
                raise self.wrong(at, text, value=given)
            host_name = hosts[0].name
        if host_name not in used or (has_host and host_name == LOCAL and not hosts[0].address):
            text = (
                f"host {host_name!r} is not in [hosts]; write it there: "
                f'{host_name or "h1"} = {{ address = "10.0.0.1", port = 7000 }}'
            )
            raise self.wrong(at, text, value=given)
        first_port = next(host.port for host in hosts if host.name == host_name)
        port = None if first_port is None else first_port + used[host_name]
        used[host_name] += 1
        return Replica(f"{group}.{short}", proc, group, host_name, port, app)

    def _no_doubles(self, at: tuple[str, ...], given: list[Any], replicas: list[Replica]) -> None:
        seen: set[str] = set()
        for text, replica in zip(given, replicas, strict=True):
            if replica.name in seen:
                raise self.wrong(at, f"{replica.name} is there twice; give each its own name",
                                 value=text)  # fmt: skip
            seen.add(replica.name)

    def _fits_hosts(self, hosts: tuple[Host, ...], used: dict[str, int]) -> None:
        taken: dict[tuple[str, int], str] = {}
        for host in hosts:
            at = ("hosts", host.name)
            count = used[host.name]
            if count > REPLICAS_PER_HOST_MAX:
                raise self.wrong(
                    at if host.address else ("groups",),
                    f"{count} replicas; put at most {REPLICAS_PER_HOST_MAX} on one host",
                )
            if host.address is None or host.port is None:
                continue
            if count == 0:
                raise self.wrong(at, f'no replica is on it; write "a@{host.name}", or drop it')
            if host.port + count - 1 > PORT_MAX:
                raise self.wrong(at, f"its {count} replicas take ports from {host.port} on; "
                                     f"write at most {PORT_MAX - count + 1}")  # fmt: skip
            for port in range(host.port, host.port + count):
                other = taken.setdefault((host.address, port), host.name)
                if other != host.name:
                    text = (
                        f"port {port} of {host.address} is taken by {other}, whose replicas take "
                        f"{used[other]} ports; write another first port"
                    )
                    raise self.wrong(at, text)

    def _apps(self, groups: list[str]) -> dict[str, str]:
        """What the replicas of each group run: [cluster] app for all, [apps] for one group."""
        given = self._optional("apps", 'g1 = "bank:Account"')
        everyone = self.values["cluster"].get("app")
        found: dict[str, str] = {}
        if everyone is not None:
            found = dict.fromkeys(groups, self._app(("cluster", "app"), everyone))
        self._known(("apps",), given, groups, "group")
        for group, app in given.items():
            found[group] = self._app(("apps", group), app)
        return found

    def _app(self, at: tuple[str, ...], given: object) -> str:
        if not isinstance(given, str) or not _APP.fullmatch(given):
            raise self.wrong(at, f'{given!r} is no app; write "module:name"')
        return given

    def _engine(self, given: object, groups: tuple[Group, ...]) -> str:
        at = ("cluster", "engine")
        one_host = len({r.host for g in groups for r in g.replicas}) == 1
        if given is None:
            return "eager" if one_host else "wbcast"
        if not isinstance(given, str) or given not in ENGINES:
            raise self.wrong(at, f"{given!r} is no engine; write one of {', '.join(ENGINES)}")
        if given == "eager" and not one_host:
            raise self.wrong(at, "eager needs all replicas on one host; write wbcast")
        if given == "skeen" and any(len(group.replicas) > 1 for group in groups):
            raise self.wrong(at, "skeen has groups of one replica; write wbcast, or one each")
        if given == "dab" and len(groups) > 1:
            raise self.wrong(at, "dab has one group; write wbcast, or one group")
        if given == "dab" and not one_host:
            raise self.wrong(at, "dab needs one clock, so all replicas on one host; write wbcast")
        return given

    def _trace(self, engine: str, given: object) -> Path | None:
        at = ("cluster", "trace")
        if given is not None and engine == "eager":
            raise self.wrong(
                at, 'the engine eager does not record; write engine = "wbcast" as well'
            )
        return self._path(at, given)

    def _options(self, engine: str) -> Mapping[str, int]:
        given = self._optional("options", "heartbeat_ms = 10")
        usable = [name for name, option in OPTIONS.items() if option.is_for(engine)]
        for name in given:
            if name in OPTIONS and name not in usable:
                text = f"the engine {engine} has no such option; write one of {', '.join(usable)}"
                raise self.wrong(("options", name), text)
        self._known(("options",), given, usable, "option")
        found = {}
        for name in usable:
            option = OPTIONS[name]
            value = given.get(name, option.default)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not option.low <= value <= option.high:
                text = f"{value!r} is out of range; write {option.low:g} to {option.high:g}"
                raise self.wrong(("options", name), text)
            is_time = name.endswith("_ms")
            if not is_time and not isinstance(value, int):
                raise self.wrong(("options", name), f"{value!r}; write a whole number")
            found[ticks_of(name)] = option.in_ticks(value) if is_time else value
        if engine == "dab":
            self._latency(found)
        return MappingProxyType(found)

    def _latency(self, options: Mapping[str, int]) -> None:
        """What cannot be promised is refused before it is counted on."""
        timing = timing_of(options)
        bound = timing.latency(timing.f) + timing.f * timing.gamma
        if options["latency_ticks"] < bound:
            raise self.wrong(
                ("options", "latency_ms"),
                f"dab delivers within {bound / TICKS_PER_MS:g} ms with {timing.f} failures, and no "
                f"algorithm within less than {timing.lower_bound / TICKS_PER_MS:g} ms; write more, "
                "or a smaller delta_ms, theta_ms or failures",
            )
