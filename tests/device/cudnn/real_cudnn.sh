#!/usr/bin/env bash
# NVIDIA's own cuDNN 8, from PyPI (some 0.8 GB each, and 0.4 GB of cuBLAS, into a
# folder that is removed): what is used of it is as in cuDNN 9's headers, and the
# loader finds every function. 8.7 is the last one for a K80, 8.9 the last one of all.
#
#   bash tests/device/cudnn/real_cudnn.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../../.."
build=$PWD/$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
headers=build/venv/cuda/include
[ -d $headers ] || headers=/usr/local/cuda/include

cmake --build "$build" -t cudnn_functions -t fake_cuda_r470 -t fake_cudnn_8
exported() {
  nm -D --defined-only --format=posix "$1" | sed -n 's/^\(cudnn[^ @]*\).*/\1/p' | sort
}
wheel() { # PINNED FOLDER
  build/venv/bin/python -m pip --quiet --disable-pip-version-check download \
    --no-deps --dest "$2" "$1"
  build/venv/bin/python -m zipfile -e "$2"/*.whl "$2"
  rm "$2"/*.whl
}
wheel nvidia-cublas-cu11==11.11.3.6 "$folder/cublas"
mkdir "$folder/driver"
ln -s "$build/lib/fake_old/libcuda.so.1" "$folder/driver"
for version in 8.7.0.84 8.9.6.50; do
  wheel nvidia-cudnn-cu11==$version "$folder/$version"
  cudnn=$folder/$version/nvidia/cudnn
  g++ -std=c++20 -fsyntax-only -I. -I"$cudnn/include" -I$headers \
    tests/device/cudnn/cudnn_abi.cc
  # The fake has no function that the real one has not.
  missing=$(comm -23 <(exported "$build/lib/fake_old/libcudnn.so.8") \
    <(exported "$cudnn/lib/libcudnn.so.8"))
  [ -z "$missing" ] || { echo "the fake has more: $missing"; exit 1; }
  LD_LIBRARY_PATH=$cudnn/lib:$folder/driver:$folder/cublas/nvidia/cublas/lib \
    "$build/bin/cudnn_functions" |
    tee "$folder/found"
  grep -q "^cuDNN ${version%.*} .*every function" "$folder/found"
done
