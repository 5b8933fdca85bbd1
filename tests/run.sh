#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test that needs no GPU.
#
#   bash tests/run.sh
#
# Three builds, each of what it alone tells: the programs and the tests between
# them as they are installed, with assertions on; the unit tests under the
# address and undefined-behaviour sanitizers; those of code with threads of its
# own under the thread sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

bash deploy/install-packages.sh --tests
bash deploy/python-venv.sh
log=build/test-log.txt
: >"$log"

# Builds the targets of a preset and runs its tests (CMakePresets.json names
# both), as many at once as there are processors.
run_suite() {
  echo "== $1: build"
  cmake --preset "$1" && cmake --build --preset "$1" || return
  echo "== $1: tests, after $SECONDS s"
  ctest --preset "$1" -j "$(nproc)" 2>&1 | tee -a "$log"
}

# Always reports, whatever failed before.
summarize() {
  local total failed
  total=$(sed -n 's/.*tests failed out of \([0-9]*\)$/\1/p' "$log" |
    awk '{s += $1} END {print s + 0}')
  failed=$(sed -n 's/^.*, \([0-9]*\) tests\{0,1\} failed out of.*/\1/p' "$log" |
    awk '{s += $1} END {print s + 0}')
  echo "$((total - failed)) passed, $failed failed, after $SECONDS s"
}
trap summarize EXIT

status=0
for preset in ci asan tsan; do
  run_suite "$preset" || status=1
done
exit $status
