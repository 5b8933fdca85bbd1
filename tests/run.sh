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

run_suite() {
  local preset=$1
  shift
  echo "== $preset"
  # Threads that spin at barriers make a machine of few cores crawl.
  OMP_WAIT_POLICY=passive ctest --preset "$preset" "$@" 2>&1 | tee -a "$log"
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
cmake --build --preset dev
run_suite dev

cmake --preset asan
cmake --build --preset asan -t unit_tests
run_suite asan -L unit

cmake --preset tsan
threaded='agent_test retry_test sqlite_store_test step_log_test'
threaded+=' grpc_call_test local_planner_test handle_fake_test'
# shellcheck disable=SC2086 # a list
cmake --build --preset tsan -t $threaded
run_suite tsan -R "^(${threaded// /|}|handle_fake_arena_test)\$"
