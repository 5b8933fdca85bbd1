#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test that needs no GPU.
#
#   bash tests/run.sh
#
# Three builds, each of what it alone tells: the programs and the tests between
# them as they are installed, with assertions on; the unit tests under the
# address and undefined-behaviour sanitizers; those of code with threads of its
# own under the thread sanitizer. Fails if other tests skip themselves than
# tests/skips.txt lists for a machine without a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

# Always reports, whatever failed before.
results=()
summarize() {
  local status=$?
  echo "== results, after $SECONDS s"
  python3 tests/skips.py "${results[@]}" || status=1
  exit $status
}
trap summarize EXIT

bash deploy/install-packages.sh --tests
bash deploy/python-venv.sh

# Builds the targets of a preset and runs its tests (CMakePresets.json names
# both): one at a time for each processor, or two that wait (PROCESSORS of ctest
# is 1 for these, and 2 for others).
run_suite() {
  local file=$PWD/build/$1-tests.xml
  echo "== $1: build"
  cmake --preset "$1" && cmake --build --preset "$1" || return
  echo "== $1: tests, after $SECONDS s"
  rm -f "$file"
  results+=("$1=$file")
  ctest --preset "$1" -j "$((2 * $(nproc)))" --output-junit "$file" \
    --test-output-size-passed 10000000
}

status=0
for preset in ci asan tsan; do
  run_suite "$preset" || status=1
done
exit $status
