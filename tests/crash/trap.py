"""Shows how a broken variant is caught: PYTHONPATH=tests python -m crash.trap [NAME]"""

from __future__ import annotations

import sys

from crash.build import BUILD, build
from crash.cases import Job, run_job, scripts
from crash.mutants import TRAPS
from prove.mutants import mutated_sources


def main() -> int:
    traps = {trap.mutant.name: trap for trap in TRAPS}
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in traps:
        print(__doc__, *traps, sep="\n  ")
        return 2
    protocol, script, fault, points, copies = traps[name].job
    program = build(mutated_sources(traps[name].mutant, BUILD))
    known = {one.name: one for one in scripts(program)}
    ran = run_job(program, Job(protocol, known[script], fault, points, copies), "hunt")
    print(ran.first_failure or f"survived: {ran.figures}")
    return 1 if ran.passed else 0


if __name__ == "__main__":
    sys.exit(main())
