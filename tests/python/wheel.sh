#!/usr/bin/env bash
# Installs the wheel that brings its libraries into a fresh virtual environment,
# and uses it where nothing names the build tree: its libraries need nothing else than
# each other and what every Linux system has, but for MPI.
#
#   tests/python/wheel.sh PYTHON LIBRARIES FOLDER   works in FOLDER, which it
#                                                   replaces
set -euo pipefail
python=$1
libraries=$2
folder=$3
root=$(cd "$(dirname "$0")/../.." && pwd)

rm -rf "$folder"
mkdir -p "$folder"
cp -R "$root/client/python" "$folder/package"
"$python" "$folder/package/build_backend.py" "$libraries" "$folder/wheel"
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-index \
  --disable-pip-version-check "$folder"/wheel/ucudnn-*-py3-none-manylinux_2_*.whl
rm -rf "$folder/package"
cd "$folder"
env -u UCUDNN_LIBRARY -u LD_LIBRARY_PATH -u PYTHONPATH \
  "$folder/venv/bin/python" - "$folder" "$root/tests/data" <<'PYTHON'
import ctypes
import importlib.metadata
import sys
from pathlib import Path

import ucudnn

folder, data = map(Path, sys.argv[1:])
package = Path(ucudnn.__file__).parent
assert folder / "venv" in package.parents
told = importlib.metadata.metadata("ucudnn")
assert told["Version"] == ucudnn.__version__
assert "torch>=2.11; extra == 'torch'" in told.get_all("Requires-Dist")
(backend,) = importlib.metadata.entry_points(group="torch_dynamo_backends")
assert backend.name == "ucudnn"
plan = ucudnn.solve_wr(
    data / "h200/alexnet_b256_pow2.csv", 256, "64MiB", precision="FP32"
)
assert plan.optimal, plan
ctypes.CDLL(str(package / "libucudnn_conv.so.1"))
assert (package / "libucudnn.so.0").exists()
loaded = {
    Path(line.split()[-1])
    for line in Path("/proc/self/maps").read_text().splitlines()
    if ".so" in line
}
for name in ("ucudnn_solve", "ucudnn_conv", "onnx", "protobuf", "dnnl"):
    found = [file for file in loaded if file.name.startswith(f"lib{name}")]
    assert found, name
    assert all(folder / "venv" in file.parents for file in found), found
PYTHON
