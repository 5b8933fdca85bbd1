#!/usr/bin/env bash
# Installs libucudnn into an empty folder and uses it from there alone, as a
# new user would: from C with pkg-config, from C++ with CMake, with and without
# MPI.
#
#   install_test.sh BUILD_FOLDER C++_COMPILER C_COMPILER
set -euo pipefail
build=$1 cxx=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for component in library development; do
  cmake --install "$build" --prefix "$tmp/usr" --component $component >/dev/null
done
find "$tmp/usr" -type f | sort | sed "s|$tmp/||"

# Only what the interface has is shown.
stray=$(nm -D --defined-only "$tmp"/usr/lib*/*/libucudnn.so 2>/dev/null ||
  nm -D --defined-only "$tmp"/usr/lib*/libucudnn.so)
if grep -v -e ' ucudnn_' -e ' UCUDNN_0' <<<"$stray"; then
  echo "libucudnn.so shows what is not of its interface" >&2
  exit 1
fi

pc=$(dirname "$(find "$tmp/usr" -name ucudnn.pc)")
# The file names the prefix of the build; a package's is right.
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

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export UCUDNN_CACHE_DIR="$tmp/cache"
unset UCUDNN_COORDINATOR UCUDNN_PLAN_FILE
for program in "$tmp/consumer_c" "$tmp/project/consumer"; do
  timeout 120 mpirun -n 2 "$program" </dev/null >"$tmp/out" 2>&1 ||
    { cat "$tmp/out"; exit 1; }
  cat "$tmp/out"
  [ "$(grep -c '^ok rank' "$tmp/out")" = 2 ]
done
