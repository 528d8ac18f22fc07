"""A long run in bounded memory, with its order checked as it goes: bench/multicast_scale.py made
small. In a process of its own, because the peak of this one is that of all tests before."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "multicast_scale.py"
SLACK_MIB = 8


def test_memory_is_flat_from_a_quarter_of_the_multicasts_to_all_of_them() -> None:
    command = [sys.executable, str(BENCH), "--groups", "60", "--multicasts", "4000"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=240).stdout)
    assert found["verdict"] == "passed"
    assert found["deliveries"] >= 3 * found["multicasts"]
    assert found["peak_mib"] <= found["peak_mib_at_quarter"] + SLACK_MIB
    assert found["in_flight_max"] < found["multicasts"] // 20


def test_keeping_every_event_would_be_noticed() -> None:
    """What the test above excludes: a full record of the same run is far above the slack."""
    program = (
        "import re, pathlib\n"
        "from shmcast.multicast.sim import simulate\n"
        "status = pathlib.Path('/proc/self/status')\n"  # ru_maxrss would be the parent's
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1]) // 1024\n"
        "def kept(n):\n"
        "    run = simulate('wbcast', groups=3, replicas=3, messages=n, invariants=False)\n"
        "    return peak()\n"
        "print(kept(200), kept(1500))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=240, text=True
    )
    few, many = map(int, done.stdout.split())
    assert many > few + SLACK_MIB
