#!/usr/bin/env bash
# Makes build/venv, the Python environment of the tests: the packages that
# tests/python/requirements.txt pins, and in build/venv/cuda/include the headers
# of CUDA and cuDNN, unless this machine has them in /usr/local/cuda/include.
#
#   bash deploy/python-venv.sh
#
# Does nothing if neither the pins nor this script have changed since. Otherwise
# downloads some 0.6 GB, of which 0.4 GB are cuDNN's, for its headers alone, and
# leaves 1.5 GB.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/build/venv
requirements=tests/python/requirements.txt
# As on the machines where results were measured.
header_wheels=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88
  nvidia-cudnn-cu13==9.19.0.56)
# Debian's; cuda_runtime_api.h and cudnn.h include the rest.
python=/usr/bin/python3
system=/usr/local/cuda/include
if [ -f $system/cudnn.h ] && [ -f $system/cuda_runtime_api.h ]; then
  header_wheels=()
fi

state=$({ echo "${header_wheels[*]}" && "$python" -V &&
  cat "$requirements" deploy/python-venv.sh; } | sha256sum)
[ "$(cat "$venv/made-from" 2>/dev/null)" != "$state" ] || exit 0

echo "Installing the tests' Python packages into build/venv"
rm -rf "$venv"
"$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --requirement "$requirements"
if [ ${#header_wheels[@]} -gt 0 ]; then
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' EXIT
  "${pip[@]}" download --no-deps --dest "$wheels" "${header_wheels[@]}"
  "$venv/bin/python" - "$wheels" "$venv/cuda/include" <<'PYTHON'
import sys
import zipfile
from pathlib import Path

wheels, folder = map(Path, sys.argv[1:])
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, found, header = name.partition("/include/")
            if found and not name.endswith("/"):
                file = folder / header
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(name))
PYTHON
fi
echo "$state" >"$venv/made-from"
