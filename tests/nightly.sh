#!/usr/bin/env bash
# What tests/run.sh leaves out because it takes too long:
#
#   bash tests/nightly.sh [SECONDS]
#
# Compiles each source and header alone, optimised, which GCC warns more about,
# and the programs of tests/gpu and tests/bench; runs the unit tests with all of
# their random instances; kills daemons 1,000 times; cuts links between hosts for
# a minute; has a cluster live among faults for three minutes; tries all of the
# sweep over memory plans; loads NVIDIA's cuDNN 8.7 and 8.9, 2 GB to download; and
# fuzzes each target for SECONDS (60). Goes on after a failure, and says at the end
# what failed.
set -uo pipefail
cd "$(dirname "$0")/.."
export UCUDNN_BUILD=build/dev

failed=()
step() {
  echo "== $*, after $SECONDS s"
  "$@" || failed+=("$*")
}

bash deploy/install-packages.sh --tests && bash deploy/python-venv.sh || exit
step cmake --preset dev -DUCUDNN_WERROR=ON
step cmake --build --preset dev -t all -t all_verify_interface_header_sets \
  -t tests/gpu/all -t tests/bench/all -t unit_tests
step ctest --preset dev -L unit -j "$((2 * $(nproc)))"
step bash tests/integration/history/long.sh 1000
step bash tests/integration/hosts/minute.sh 60
rm -rf build/soak
step bash tests/soak.sh --hours 0.05 --build build/dev --out build/soak
step python3 tests/sweep/memory_plans.py --full --ucudnn build/dev/bin/ucudnn
step bash tests/device/cudnn/real_cudnn.sh build/dev
step bash tests/fuzz/run.sh --seconds "${1:-60}"

echo "== ${#failed[@]} failed, after $SECONDS s"
printf '%s\n' "${failed[@]}"
[ ${#failed[@]} -eq 0 ]
