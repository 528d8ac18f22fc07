"""cluster.toml: what it means, and that every mistake is refused with its line and a way out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shmcast.errors import ConfigError, ShmcastError
from shmcast.multicast.run.config import LOCAL, ClusterConfig, load
from shmcast.multicast.run.options import OPTIONS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "cluster-toml.md"

SMALL = """\
[cluster]
name = "bank"
[groups]
g1 = ["a", "b", "c"]
g2 = ["a", "b", "c"]
"""

HOSTS = """\
[cluster]
name = "bank"
[groups]
g1 = ["a@h1", "b@h2"]
g2 = ["a@h1",
      "b@h2"]
[hosts]
h1 = { address = "10.0.0.1", port = 7000 }
h2 = { address = "10.0.0.2", port = 7000 }
"""

DAB = '[cluster]\nname = "bank"\nengine = "dab"\n[groups]\ng1 = ["a", "b"]\n[options]\n'


def read(tmp_path: Path, text: str) -> ClusterConfig:
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    return load(file)


def test_names_become_processes_in_the_order_of_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, SMALL)
    assert [r.name for r in config.replicas] == ["g1.a", "g1.b", "g1.c", "g2.a", "g2.b", "g2.c"]
    assert config.topology.groups == ((0, 1, 2), (3, 4, 5))
    assert config.topology.clients == ()
    assert config.group_id("g2") == 1
    assert config.replica("g2.a").proc == 3
    assert config.on_host(LOCAL) == config.replicas


def test_the_engine_follows_from_the_hosts(tmp_path: Path) -> None:
    assert read(tmp_path, SMALL).engine == "eager"
    assert read(tmp_path, HOSTS).engine == "wbcast"


def test_each_replica_of_a_host_has_a_port_of_its_own(tmp_path: Path) -> None:
    config = read(tmp_path, HOSTS)
    assert [r.port for r in config.on_host("h1")] == [7000, 7001]
    assert [r.port for r in config.on_host("h2")] == [7000, 7001]


def test_several_hosts_have_keys_and_one_has_none(tmp_path: Path) -> None:
    assert read(tmp_path, HOSTS).keys == tmp_path / "keys"
    assert read(tmp_path, SMALL).keys is None


def test_times_become_ticks(tmp_path: Path) -> None:
    config = read(tmp_path, HOSTS + "[options]\nheartbeat_ms = 2.5\n")
    assert config.options["heartbeat_ticks"] == 2500
    assert config.options["retry_ticks"] == OPTIONS["retry_ms"].default * 1000


def test_directories_are_beside_the_file(tmp_path: Path) -> None:
    text = SMALL.replace("[groups]", 'engine = "wbcast"\ntrace = "runs/today"\n[groups]')
    assert read(tmp_path, text).trace == tmp_path / "runs" / "today"


def test_one_group_may_run_another_app(tmp_path: Path) -> None:
    text = SMALL.replace("[groups]", 'app = "bank:Account"\n[groups]') + '[apps]\ng2 = "log:Log"\n'
    config = read(tmp_path, text)
    assert config.replica("g1.a").app == "bank:Account"
    assert config.replica("g2.a").app == "log:Log"


def test_fingerprints_differ_where_clusters_must_not_meet(tmp_path: Path) -> None:
    one = read(tmp_path, HOSTS).fingerprint
    assert one == read(tmp_path, HOSTS.replace("[hosts]", "# a word\n[hosts]")).fingerprint
    assert one != read(tmp_path, HOSTS.replace("port = 7000 }\nh2", "port = 7 }\nh2")).fingerprint
    assert one != read(tmp_path, HOSTS + "[options]\nretry_ms = 7\n").fingerprint


MISTAKES = [
    ("", 1, "cluster", 'name = "bank"'),
    (SMALL.replace('"bank"', '"b nk"'), 2, "cluster.name", "letters, digits"),
    (SMALL.replace('name = "bank"', "copies = 1"), 1, "cluster.name", 'name = "bank"'),
    (SMALL.replace('name = "bank"', "name = 7"), 2, "cluster.name", "letters"),
    (SMALL.replace("[groups]", "engnie = 1\n[groups]"), 3, "cluster.engnie", "engine"),
    (SMALL.replace("[groups]", 'engine = "raft"\n[groups]'), 3, "cluster.engine", "wbcast"),
    (SMALL.replace("[groups]", 'engine = "skeen"\n[groups]'), 3, "cluster.engine", "one replica"),
    (SMALL.replace("[groups]", 'engine = "dab"\n[groups]'), 3, "cluster.engine", "one group"),
    (SMALL.replace("[groups]", "copies = 9\n[groups]"), 3, "cluster.copies", "1 to 8"),
    (SMALL.replace("[groups]", "copies = true\n[groups]"), 3, "cluster.copies", "1 to 8"),
    (SMALL.replace("[groups]", "message_size = 0\n[groups]"), 3, "cluster.message_size", "1 to"),
    (
        SMALL.replace("[groups]", 'engine = "wbcast"\ntrace = 3\n[groups]'),
        4,
        "cluster.trace",
        'trace = "',
    ),
    (
        SMALL.replace("[groups]", 'trace = "runs"\n[groups]'),
        3,
        "cluster.trace",
        'engine = "wbcast"',
    ),
    (SMALL.replace("[groups]", 'app = "x"\n[groups]'), 3, "cluster.app", "module:name"),
    (SMALL.replace("[groups]", "[group]"), 3, "group", "groups"),
    (SMALL.split("[groups]", maxsplit=1)[0], 1, "groups", '["a", "b", "c"]'),
    (SMALL + "g3 = []\n", 6, "groups.g3", '["a", "b", "c"]'),
    (SMALL + "g3 = [1]\n", 6, "groups.g3", '"a@h1"'),
    (SMALL + 'g3 = ["a", "a"]\n', 6, "groups.g3", "twice"),
    (SMALL + 'g3 = ["a b"]\n', 6, "groups.g3", '"a@h1"'),
    (SMALL + 'g3 = ["a@h1"]\n', 6, "groups.g3", "[hosts]"),
    (SMALL + '"g 3" = ["a"]\n', 6, "groups.g 3", "letters"),
    (SMALL + "".join(f'x{i} = ["a"]\n' for i in range(47)), 3, "groups", "at most 48"),
    (SMALL + f"g3 = {[f'r{i}' for i in range(43)]}\n", 3, "groups", "at most 48"),
    (HOSTS.replace('"b@h2"]\n[h', '"b@h3"]\n[h'), 6, "groups.g2", "h3 = { address"),
    (HOSTS.replace('"b@h2"]\n[h', '"b"]\n[h'), 6, "groups.g2", "b@HOST"),
    (HOSTS + "h3 = 7\n", 10, "hosts.h3", "address ="),
    (HOSTS + 'h3 = { address = "x y", port = 1 }\n', 10, "hosts.h3", "address ="),
    (HOSTS + 'h3 = { address = "10.0.0.3:7000", port = 1 }\n', 10, "hosts.h3", "written apart"),
    (HOSTS + 'h3 = { address = "x", port = 0 }\n', 10, "hosts.h3.port", "1 to 65535"),
    (HOSTS + 'h3 = { address = "x", prot = 5 }\n', 10, "hosts.h3.prot", "port"),
    (HOSTS + 'h3 = { address = "x", port = 5 }\n', 10, "hosts.h3", "drop it"),
    (HOSTS.replace("10.0.0.2", "10.0.0.1"), 9, "hosts.h2", "another first port"),
    (HOSTS.replace("7000 }\nh2", "65535 }\nh2"), 8, "hosts.h1", "at most 65534"),
    (HOSTS.replace("[groups]", 'engine = "eager"\n[groups]'), 3, "cluster.engine", "wbcast"),
    (
        HOSTS.replace("[groups]", 'engine = "dab"\n[groups]').replace(
            'g2 = ["a@h1",\n      "b@h2"]\n', ""
        ),
        3,
        "cluster.engine",
        "one clock",
    ),
    (DAB + "latency_ms = 30\n", 7, "options.latency_ms", "within less than 40 ms"),
    (DAB + "burst = 0\n", 7, "options.burst", "1 to 1000"),
    (DAB + "burst = 1.5\n", 7, "options.burst", "a whole number"),
    (SMALL + "[options]\nheartbit_ms = 1\n", 7, "options.heartbit_ms", "request_ms"),
    (SMALL + "[options]\nlag_ms = 1\n", 7, "options.lag_ms", "the engine eager"),
    (HOSTS + "[options]\nheartbeat_ms = 0\n", 11, "options.heartbeat_ms", "1 to 10000"),
    (HOSTS + "[options]\nheartbeat_ms = nan\n", 11, "options.heartbeat_ms", "1 to 10000"),
    (HOSTS + '[options]\nheartbeat_ms = "1"\n', 11, "options.heartbeat_ms", "1 to 10000"),
    (SMALL + '[apps]\ng9 = "a:b"\n', 7, "apps.g9", "g1, g2"),
    (SMALL + "[apps]\ng1 = 1\n", 7, "apps.g1", "module:name"),
    ("options = 1\n" + SMALL, 1, "options", "[options]"),
    (SMALL.replace('"bank"', "bank"), 2, "not TOML", "key ="),
    (SMALL + "g3 = [", 6, "not TOML", "key ="),
]


@pytest.mark.parametrize(("text", "line", "where", "hint"), MISTAKES)
def test_a_mistake_is_refused_with_its_line_and_what_to_write(
    tmp_path: Path, text: str, line: int, where: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'cluster.toml'}:{line}: {where}"), said
    assert hint in said, said


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "c.toml")


def test_a_wrong_file_is_a_value_error_of_this_project() -> None:
    assert issubclass(ConfigError, ShmcastError)
    assert issubclass(ConfigError, ValueError)


@pytest.mark.parametrize("ask", ["group_id", "replica", "on_host"])
def test_an_unknown_name_is_answered_with_those_that_exist(tmp_path: Path, ask: str) -> None:
    with pytest.raises(ValueError, match=r"there is no .* 'x'; there are "):
        getattr(read(tmp_path, SMALL), ask)("x")


def test_the_complete_example_of_the_page_is_a_cluster(tmp_path: Path) -> None:
    for example in re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        read(tmp_path, example)
    tables = set(re.findall(r"^\[(\w+)\]", example, re.M))
    assert tables == {"cluster", "groups", "hosts", "apps", "options"}, "the last one shows all"


def test_the_page_lists_every_option_with_its_default() -> None:
    options = PAGE.read_text().partition("## [options]")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) ", options, re.M))
    assert {name: float(value) for name, value in rows.items()} == {
        name: option.default for name, option in OPTIONS.items()
    }
