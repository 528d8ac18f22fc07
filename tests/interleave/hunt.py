"""Hunts mutants by name, or all of them, and tells how each was caught, as a story.

PYTHONPATH=tests python -m interleave.hunt [NAME ...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from interleave import build, cases, mutants
from prove.mutants import mutated_sources


def main(names: list[str]) -> int:
    chosen = [h for h in mutants.HUNTED if not names or h.mutant.name in names]
    survived = [] if chosen else ["no such mutant"]
    with tempfile.TemporaryDirectory(prefix="interleave-") as scratch:
        for hunted in chosen:
            program = build.build(mutated_sources(hunted.mutant, Path(scratch)), Path(scratch))
            what = hunted.case
            answer = cases.run(program, what, 120)
            print(f"== {hunted.mutant.name} ({hunted.mutant.breaks}), {what.name}")
            if answer["held"]:
                survived.append(hunted.mutant.name)
            else:
                print(cases.story(program, what, answer["schedule"]))
    print("survived:", ", ".join(survived) or "none")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
