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
mkdir -p build
log=build/test-log.txt
: >"$log"

# Starts to build the targets of a preset (CMakePresets.json names them), in a
# process group of its own.
begin_build() {
  set -m
  (
    set -e
    cmake --preset "$1"
    nice -n 19 cmake --build --preset "$1"
  ) >"build/$1-build.txt" 2>&1 &
  set +m
  building=$!
}

# Waits for the build of a preset and runs its tests, as many at once as there
# are processors, while that of the next preset, if any, is built: half of their
# time, tests wait for daemons.
run_suite() {
  local built=true
  echo "== $1: build, in build/$1-build.txt"
  wait "$building" || built=false
  [ -z "${2:-}" ] || begin_build "$2"
  if ! $built; then
    tail -n 100 "build/$1-build.txt"
    return 1
  fi
  echo "== $1: tests, after $SECONDS s"
  ctest --preset "$1" -j "$(nproc)" 2>&1 | tee -a "$log"
}

# Always reports, whatever failed before.
finish() {
  local total failed
  kill -- "-$building" 2>/dev/null || true
  total=$(sed -n 's/.*tests failed out of \([0-9]*\)$/\1/p' "$log" |
    awk '{s += $1} END {print s + 0}')
  failed=$(sed -n 's/^.*, \([0-9]*\) tests\{0,1\} failed out of.*/\1/p' "$log" |
    awk '{s += $1} END {print s + 0}')
  echo "$((total - failed)) passed, $failed failed, after $SECONDS s"
}
trap finish EXIT

status=0
begin_build ci
run_suite ci asan || status=1
run_suite asan tsan || status=1
run_suite tsan || status=1
exit $status
