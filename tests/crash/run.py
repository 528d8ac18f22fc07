"""Runs cases by hand: PYTHONPATH=tests python -m crash.run PROTOCOL SCRIPT FAULT POINTS [COPIES]

FAULT and POINTS are explained at the head of main.c: `eager send-more kill all`,
`crash send-more kill+lose 22`, `eager replace truncate:1+lose all 3`. No arguments: the scripts.
"""

from __future__ import annotations

import sys

from crash.build import build
from crash.cases import Job, run_job, scripts


def main() -> int:
    program = build()
    known = {script.name: script for script in scripts(program)}
    words = sys.argv[1:]
    if len(words) not in (4, 5) or words[1] not in known:
        print(__doc__)
        for script in known.values():
            print(f"  {script.name:16} {script.role:16} {', '.join(sorted(script.protocols))}")
        return 2
    copies = int(words[4]) if len(words) == 5 else 0
    ran = run_job(program, Job(words[0], known[words[1]], words[2], words[3], copies))
    print(*ran.failures, sep="\n")
    print(ran.figures, f"worst: {ran.worst}")
    return 0 if ran.passed else 1


if __name__ == "__main__":
    sys.exit(main())
