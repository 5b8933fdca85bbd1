# shellcheck shell=bash
# Finds cuDNN and CUDA's libraries on a machine with a GPU; to be sourced:
#
#   . tests/gpu/env.sh
#
# Looks in Python's nvidia packages (PyTorch installs them), then in
# /usr/local/cuda. Sets UCUDNN_CUDA_PATH to what it found, and appends it to
# LD_LIBRARY_PATH for programs that link CUDA. Reports on stderr what is missing,
# but never fails: programs report themselves what they lack.

_ucudnn_find() {
  local folders
  # The library folders in every place that Python imports from.
  folders=$(python3 - 2>/dev/null <<'PYTHON'
import glob, os, sys
for root in sys.path:
    for folder in sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib"))):
        if glob.glob(os.path.join(folder, "*.so*")):
            print(folder)
PYTHON
  ) || true
  local cuda=${CUDA_HOME:-/usr/local/cuda} folder
  for folder in "$cuda/lib64" "$cuda/lib"; do
    [ -d "$folder" ] && folders+=$'\n'$folder
  done
  local path="" library found
  while read -r folder; do
    [ -n "$folder" ] && path+="${path:+:}$folder"
  done <<<"$folders"
  export UCUDNN_CUDA_PATH="$path"
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$path"
  local loader
  loader=$(ldconfig -p 2>/dev/null || true)
  for library in libcudnn.so.9 libcuda.so.1; do
    found=""
    while read -r -d : folder; do
      if [ -z "$found" ] && [ -e "$folder/$library" ]; then found=$folder; fi
    done <<<"$LD_LIBRARY_PATH:"
    if [ -z "$found" ] && grep -q "$library " <<<"$loader"; then
      found="known to the loader"
    fi
    echo "env.sh: $library: ${found:-not found}" >&2
  done
  return 0
}
_ucudnn_find
unset -f _ucudnn_find
