#!/usr/bin/env bash
# Installs everything into an empty folder and uses it only from there, as a new
# user would: the programs; libucudnn from C with pkg-config, from C++ with
# CMake, with and without MPI; the solvers from C and from Python; planned
# convolutions from C.
#
#   install_test.sh BUILD_FOLDER C++_COMPILER C_COMPILER
set -euo pipefail
build=$1 cxx=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for component in library development programs; do
  cmake --install "$build" --prefix "$tmp/usr" --component $component >/dev/null
done
find "$tmp/usr" -type f | sort | sed "s|$tmp/||"

# The library exports only its interface.
stray=$(nm -D --defined-only "$tmp"/usr/lib*/*/libucudnn.so 2>/dev/null ||
  nm -D --defined-only "$tmp"/usr/lib*/libucudnn.so)
if grep -v -e ' ucudnn_' -e ' UCUDNN_0' <<<"$stray"; then
  echo "libucudnn.so shows what is not of its interface" >&2
  exit 1
fi

pc=$(dirname "$(find "$tmp/usr" -name ucudnn.pc)")
# The file names the build's prefix; a package's names its own.
flags=$(PKG_CONFIG_PATH=$pc pkg-config --define-variable=prefix="$tmp/usr" \
  --cflags --libs ucudnn)
libraries=$(PKG_CONFIG_PATH=$pc pkg-config \
  --define-variable=prefix="$tmp/usr" --variable=libdir ucudnn)
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# shellcheck disable=SC2086
"$cc" -std=c99 -Wall -Wextra -Werror -pedantic "$here/no_mpi.c" -o "$tmp/no_mpi" $flags
"$tmp/no_mpi"
# shellcheck disable=SC2086
OMPI_CC=$cc mpicc -std=c99 -Wall -Wextra -Werror "$here/consumer.c" -o "$tmp/consumer_c" $flags
cmake -S "$here/project" -B "$tmp/project" -DCMAKE_PREFIX_PATH="$tmp/usr" \
  -DCMAKE_CXX_COMPILER="$cxx" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
cmake --build "$tmp/project" >"$tmp/log" || { cat "$tmp/log"; exit 1; }

"$cc" -std=c99 -Wall -Wextra -Werror -pedantic -I"$tmp/usr/include" \
  "$here/solve.c" -o "$tmp/solve" -L"$libraries" -lucudnn_solve
"$tmp/solve"
"$cc" -std=c11 -Wall -Wextra -Werror -pedantic -I"$tmp/usr/include" \
  "$here/conv.c" -o "$tmp/conv" -L"$libraries" -lucudnn_conv
UCUDNN_CACHE_DIR="$tmp/cache" "$tmp/conv"
root=$here/../..
UCUDNN_LIBRARY=$libraries PYTHONPATH=$root/client/python \
  PYTHONDONTWRITEBYTECODE=1 python3 -c '
import sys, ucudnn
profile = ucudnn.Profile.read(sys.argv[1])
plan = ucudnn.solve_wr(profile, batch=256, workspace_limit="64MiB",
                       precision="FP32")
print("ok", plan.total_time_us, "us")
assert plan.optimal and plan.total_time_us < plan.undivided_time_us
' "$root/tests/data/h200/alexnet_b256_pow2.csv"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export UCUDNN_CACHE_DIR="$tmp/cache"
unset UCUDNN_COORDINATOR UCUDNN_PLAN_FILE
version=$("$tmp/no_mpi" | cut -d' ' -f2)
for program in ucudnn ucudnn-agent ucudnn-coord ucudnn-rehearse ucudnn-train \
  ucudnn-train-memory; do
  said=$("$tmp/usr/bin/$program" --version)
  echo "$program: $said"
  grep -qF "$version" <<<"$said"
done
CUDA_VISIBLE_DEVICES='' timeout 120 mpirun -n 2 "$tmp/usr/bin/ucudnn-train" \
  --batch 4 --steps 2 --threads 1 --measurements 0 -o json </dev/null \
  >"$tmp/train.json" 2>"$tmp/out" || { cat "$tmp/out"; exit 1; }
python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert len(report["losses"]) == 2 and len(report["ranks"]) == 2, report
' "$tmp/train.json"
for program in "$tmp/consumer_c" "$tmp/project/consumer"; do
  timeout 120 mpirun -n 2 "$program" </dev/null >"$tmp/out" 2>&1 ||
    { cat "$tmp/out"; exit 1; }
  cat "$tmp/out"
  [ "$(grep -c '^ok rank' "$tmp/out")" = 2 ]
done
