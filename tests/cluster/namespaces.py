"""Hosts as network namespaces, with a veth pair between any two; cables can be pulled.

Nothing outside of them is touched.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from functools import cache


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


@cache
def why_not() -> str:
    """Empty: namespaces are permitted here."""
    name = f"scp{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
    except FileNotFoundError:
        return "iproute2 is not installed"
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted here: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=20)
    return ""


class Network:
    """Host i has the address 10.77.0.(i+1), and a device to<j> to host j."""

    def __init__(self, hosts: int) -> None:
        self.hosts = [f"sc{os.getpid()}h{i}" for i in range(hosts)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(hosts)]
        for host, address in zip(self.hosts, self.addresses, strict=True):
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "addr", "add", f"{address}/32", "dev", "lo")
        for i, j in itertools.combinations(range(hosts), 2):
            cable = ("type", "veth", "peer", "name", f"to{i}", "netns", self.hosts[j])
            ip("-n", self.hosts[i], "link", "add", f"to{j}", *cable)
            self._plug(i, j)
            self._plug(j, i)

    def _plug(self, host: int, other: int) -> None:
        """Routes go with their device when it is down."""
        name, own = self.hosts[host], self.addresses[host]
        ip("-n", name, "link", "set", f"to{other}", "up")
        to = f"{self.addresses[other]}/32"
        silent = ("ip", "-n", name, "route", "del", "blackhole", to)
        subprocess.run(silent, capture_output=True, check=False, timeout=20)
        ip("-n", name, "route", "replace", to, "dev", f"to{other}", "src", own)

    def _others(self, host: int) -> list[int]:
        return [i for i in range(len(self.hosts)) if i != host]

    def cut(self, host: int) -> None:
        for other in self._others(host):
            ip("-n", self.hosts[host], "link", "set", f"to{other}", "down")

    def mute(self, host: int) -> None:
        """It hears the others, and they do not hear it."""
        for other in self._others(host):
            ip(
                "-n",
                self.hosts[host],
                "route",
                "replace",
                "blackhole",
                f"{self.addresses[other]}/32",
            )

    def heal(self, host: int) -> None:
        for other in self._others(host):
            self._plug(host, other)
            self._plug(other, host)

    def close(self) -> None:
        for name in self.hosts:
            subprocess.run(
                ["ip", "netns", "del", name], capture_output=True, check=False, timeout=20
            )
