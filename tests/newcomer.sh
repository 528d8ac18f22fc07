#!/bin/sh
# What a newcomer does, literally: a fresh clone, the README's `make demo`, then the tutorial up to its
# first program, in the virtual environment that the clone made. Leaves nothing behind. Fails without a verdict
# from Spark, so it needs a network; bench/results/newcomer.md has a run of it.
# usage: tests/newcomer.sh [PYTHON]
set -eu
python=${1:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"; rm -f /dev/shm/shmcast.greetings.*' EXIT

say() { printf '\n== %s (%s s)\n' "$1" "$(($(date +%s) - started))"; }

started=$(date +%s)
say "clone"
git clone -q "$root" "$place/shmcast"
cd "$place/shmcast"
say "make demo"
{ make demo PYTHON="$python" || echo "it failed"; } 2>&1 | tee "$place/told"
grep -q "^verdict: " "$place/told" && ! grep -q "^it failed" "$place/told" || exit 1
grep -q "all of them in Spark" "$place/told" || { echo "Spark was not installed, or did not verify"; exit 1; }
say "the tutorial's first program"
mkdir "$place/tutorial"
.venv/bin/python tests/support/run_page.py docs/tutorial.md "$place/tutorial" shared --up-to "## 2."
say "done"
took=$(($(date +%s) - started))
[ "$took" -lt 600 ] || { echo "took $took s: more than the ten minutes that are promised"; exit 1; }
