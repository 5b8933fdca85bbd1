#!/usr/bin/env bash
# Installs the Python package as a user would, without a network, into a fresh
# virtual environment that sees the packages of another, and tests it there.
#
#   tests/python/run.sh PYTHON FOLDER      works in FOLDER, which it replaces
#
# The environment names the library and the data: UCUDNN_LIBRARY,
# UCUDNN_BIN_DIR, UCUDNN_TEST_DATA.
set -euo pipefail
python=$1
folder=$2
root=$(cd "$(dirname "$0")/../.." && pwd)

rm -rf "$folder"
mkdir -p "$folder"
cp -R "$root/client/python" "$folder/package"
"$python" -m venv "$folder/venv"
packages='import sysconfig; print(sysconfig.get_path("purelib"))'
"$python" -c "$packages" >"$("$folder/venv/bin/python" -c "$packages")/base.pth"
"$folder/venv/bin/python" -m pip install --quiet --no-index \
  --disable-pip-version-check "$folder/package"
cd "$folder"
# A file's tests share what they start, such as a coordinator.
"$folder/venv/bin/python" -m pytest -q --numprocesses 2 --dist loadfile \
  --durations=20 -p no:cacheprovider "$root/tests/python"
"$folder/venv/bin/python" -m mypy --config-file package/pyproject.toml \
  --cache-dir "$folder/mypy" package/ucudnn package/build_backend.py
