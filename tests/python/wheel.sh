#!/usr/bin/env bash
# Installs the wheel that brings its libraries into a fresh virtual environment,
# and uses it where nothing names the build tree.
#
#   tests/python/wheel.sh PYTHON LIBRARIES FOLDER   works in FOLDER, which it
#                                                   replaces
set -euo pipefail
python=$1
libraries=$2
folder=$3
root=$(cd "$(dirname "$0")/../.." && pwd)

rm -rf "$folder"
mkdir -p "$folder/wheel"
cp -R "$root/client/python" "$folder/package"
"$python" "$folder/package/build_backend.py" "$libraries" "$folder/wheel"
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-index \
  --disable-pip-version-check "$folder"/wheel/ucudnn-*-py3-none-linux_*.whl
rm -rf "$folder/package"
cd "$folder"
env -u UCUDNN_LIBRARY -u LD_LIBRARY_PATH -u PYTHONPATH \
  "$folder/venv/bin/python" - "$folder" "$root/tests/data" <<'PYTHON'
import sys
from pathlib import Path

import ucudnn

folder, data = map(Path, sys.argv[1:])
assert folder / "venv" in Path(ucudnn.__file__).parents
plan = ucudnn.solve_wr(
    data / "h200/alexnet_b256_pow2.csv", 256, "64MiB", precision="FP32"
)
assert plan.optimal, plan
loaded = {
    Path(line.split()[-1])
    for line in Path("/proc/self/maps").read_text().splitlines()
    if "ucudnn" in line
}
assert loaded, "no library was loaded"
outside = [file for file in loaded if folder / "venv" not in file.parents]
assert not outside, outside
PYTHON
