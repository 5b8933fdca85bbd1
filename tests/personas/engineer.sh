#!/usr/bin/env bash
# A C++ engineer with the packages: builds programs in C and C++ against the
# installed headers, by CMake and by pkg-config, with and without MPI, and runs
# them; uses the solvers from Python; trains a network.
#
#   engineer.sh ROOT C++_COMPILER C_COMPILER CUDNN_INCLUDE_FOLDERS
source "$(dirname "$0")/common.sh" "$1"
cxx=$2 cc=$3 cudnn=$4
here=$(cd "$(dirname "$0")" && pwd)
project=$here/project

# The library exports only its interface.
stray=$(nm -D --defined-only "$libraries/libucudnn.so")
if grep -v -e ' ucudnn_' -e ' UCUDNN_0' <<<"$stray"; then
  fail "libucudnn.so shows what is not of its interface"
fi

export PKG_CONFIG_PATH=$libraries/pkgconfig
# build COMPILER PACKAGE SOURCE PROGRAM
build() {
  local flags
  flags=$(pkg-config --cflags --libs "$2")
  # shellcheck disable=SC2086
  $1 -std=c11 -Wall -Wextra -Werror "$project/$3" -o "$tmp/$4" $flags ||
    fail "$3 does not compile"
}
build "$cc -pedantic" ucudnn no_mpi.c no_mpi
build "$cc -pedantic" ucudnn_solve solve.c solve
build "$cc -pedantic" ucudnn_conv conv.c conv
OMPI_CC=$cc build mpicc ucudnn consumer.c consumer_c
cmake -S "$project" -B "$tmp/project" -DCMAKE_PREFIX_PATH="$root/usr" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_INCLUDE_PATH="${cudnn//:/;}" >"$tmp/cmake.log" 2>&1 &&
  cmake --build "$tmp/project" -j 2 >>"$tmp/cmake.log" 2>&1 ||
  fail "the project does not build"

"$tmp/no_mpi"
for program in "$tmp/solve" "$tmp/project/solve" "$tmp/conv" "$tmp/project/conv"; do
  "$program"
done
[ -z "$cudnn" ] || "$tmp/project/handle"
for program in "$tmp/consumer_c" "$tmp/project/consumer"; do
  timeout 120 mpirun -n 2 "$program" </dev/null >"$tmp/run.log" 2>&1 ||
    fail "$program fails"
  [ "$(grep -c '^ok rank' "$tmp/run.log")" = 2 ] || fail "$program: no two ranks"
done

python3 -c '
import sys, ucudnn
assert ucudnn.__file__.startswith(sys.argv[2]), ucudnn.__file__
profile = ucudnn.Profile.read(sys.argv[1])
plan = ucudnn.solve_wr(profile, batch=256, workspace_limit="64MiB",
                       precision="FP32")
print("ok", plan.total_time_us, "us")
assert plan.optimal and plan.total_time_us < plan.undivided_time_us
' "$here/../data/h200/alexnet_b256_pow2.csv" "$root"

version=$("$tmp/no_mpi" | cut -d' ' -f2)
for program in ucudnn ucudnn-agent ucudnn-coord ucudnn-train; do
  says "$version" "$program" --version
done
timeout 120 mpirun -n 2 ucudnn-train --network \
  "$root/usr/share/ucudnn/quickstart/resnet20_cifar.onnx" --batch 4 --steps 2 \
  --threads 1 -o json </dev/null >"$tmp/train.json" 2>"$tmp/train.log" ||
  fail "ucudnn-train fails"
python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert len(report["losses"]) == 2 and len(report["ranks"]) == 2, report
' "$tmp/train.json"
echo "ok engineer"
