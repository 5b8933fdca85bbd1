#!/usr/bin/env bash
# Fuzzes all targets side by side, as many at once as there are processors.
#
#   tests/fuzz/run.sh [--seconds N] [-o DIR] [-b BIN] [-c CORPUS] [TARGET...]
#   tests/fuzz/run.sh --pack FILE.tar.gz
#
#   --seconds N  for each target, 60 by default
#   -o DIR       what was found and said, a temporary folder by default:
#                DIR/findings/TARGET-*, DIR/TARGET.log, DIR/corpus/TARGET
#   -b BIN       where the fuzz_TARGET are; build/fuzz/bin by default, which
#                is built if it is missing (clang)
#   -c CORPUS    the inputs to begin with; tests/fuzz/corpus by default. They
#                stay as they are.
#   --pack FILE  builds, and packs this script, the programs, their libraries
#                and the corpora, to be run elsewhere:
#                tar -xzf FILE -C DIR && DIR/run.sh -b DIR/bin -c DIR/corpus
#
# Prints a line for each target; fails if any has a finding. A finding is
# replayed by naming its file: build/fuzz/bin/fuzz_wr DIR/findings/wr-crash-...
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
seconds=60
out=
bin=
corpus=
pack=
targets=()

usage() {
  sed -n '2,21s/^# \{0,1\}//p' "$0"
}

while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    -o) out=$2; shift 2 ;;
    -b) bin=$2; shift 2 ;;
    -c) corpus=$2; shift 2 ;;
    --pack) pack=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "run.sh: --seconds: '$seconds' is not a positive number" >&2
  exit 2
fi

build() {
  (cd "$root" && cmake --preset fuzz >/dev/null && cmake --build --preset fuzz)
}

if [ -n "$pack" ]; then
  build
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  bash "$root/tests/gpu/bundle.sh" -o "$folder" "$root"/build/fuzz/bin/fuzz_*
  cp -r "$here/corpus" "$here/run.sh" "$folder"
  tar -C "$folder" -czf "$pack" .
  du -h "$pack"
  exit 0
fi

if [ -z "$bin" ]; then
  bin=$root/build/fuzz/bin
  [ -d "$bin" ] || build
fi
: "${corpus:=$here/corpus}"
: "${out:=$(mktemp -d)}"
if [ ${#targets[@]} -eq 0 ]; then
  for program in "$bin"/fuzz_*; do
    targets+=("$(basename "$program" | sed 's/^fuzz_//')")
  done
fi
mkdir -p "$out/findings"

fuzz() {
  local target=$1
  mkdir -p "$out/corpus/$target"
  local seeds=()
  [ -d "$corpus/$target" ] && seeds=("$corpus/$target")
  # Leaks of targets are found where the corpora are replayed, in the preset asan;
  # looking for them after each input is slow.
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    "$bin/fuzz_$target" -max_total_time="$seconds" -timeout=60 \
    -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$out/findings/$target-" "$out/corpus/$target" \
    "${seeds[@]}" >"$out/$target.log" 2>&1
}

for target in "${targets[@]}"; do
  while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do
    wait -n || true
  done
  { fuzz "$target" && echo 0 || echo $?; } >"$out/$target.status" &
done
wait

failed=0
for target in "${targets[@]}"; do
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' \
    "$out/$target.log" | tail -n 1)
  # Slow inputs are told, but are no finding.
  findings=$(find "$out/findings" -name "$target-*" ! -name '*-slow-unit-*' |
    wc -l)
  status=$(cat "$out/$target.status")
  if [ "$status" -ne 0 ] && [ "$findings" -eq 0 ]; then findings=1; fi
  [ "$findings" -eq 0 ] || failed=1
  printf '%-14s %12s executions in %s s, %s findings, exit status %s\n' \
    "$target" "${executions:-unknown}" "$seconds" "$findings" "$status"
done
exit $failed
