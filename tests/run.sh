#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test that needs no GPU.
#
#   bash tests/run.sh
#
# Three builds: the whole suite with assertions on; the rooms that parse and
# compute again under the address and undefined-behaviour sanitizers; those
# with threads of their own under the thread sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

bash deploy/install-packages.sh --tests
mkdir -p build
log=build/test-log.txt
: >"$log"

# One preset after the other: build its targets, then run its tests, as many at
# once as there are processors.
run_suite() {
  local preset=$1 target=$2
  shift 2
  echo "== $preset"
  cmake --preset "$preset"
  cmake --build --preset "$preset" -t "$target"
  ctest --preset "$preset" -j "$(nproc)" "$@" 2>&1 | tee -a "$log"
}

# Always reports, whatever failed before.
summarize() {
  local total failed
  total=$(sed -n 's/.*tests failed out of \([0-9]*\)$/\1/p' "$log" |
    awk '{s += $1} END {print s + 0}')
  failed=$(sed -n 's/^.*, \([0-9]*\) tests\{0,1\} failed out of.*/\1/p' "$log" |
    awk '{s += $1} END {print s + 0}')
  echo "$((total - failed)) passed, $failed failed"
}
trap summarize EXIT

cmake --preset dev -DUCUDNN_WERROR=ON
run_suite dev all
run_suite asan unit_tests -L unit
run_suite tsan thread_tests -L threads
