#!/usr/bin/env bash
# Collects programs with the shared libraries they need into a folder that runs
# on another machine: bin/ and lib/, found by relative paths.
#
#   tests/gpu/bundle.sh [-o FOLDER] PROGRAM...
#   tests/gpu/bundle.sh -c    only checks that the tools it needs are installed
#
# FOLDER is .carry by default. The other machine must provide the C and C++
# libraries, at least as new as here (its own libraries may need newer ones than
# ours), the driver, CUDA and cuDNN (loaded at run time), and MPI. Symbols are
# stripped. Needs patchelf.
set -euo pipefail

folder=.carry
check=false
while getopts co:h option; do
  case $option in
    c) check=true ;;
    o) folder=$OPTARG ;;
    h) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
for tool in patchelf ldd strip; do
  command -v "$tool" >/dev/null || {
    echo "bundle.sh: $tool is missing; run" \
      "bash deploy/install-packages.sh --gpu" >&2
    exit 1
  }
done
$check && exit 0
if [ $# -eq 0 ]; then
  echo "bundle.sh: name at least one program, such as build/release/bin/ucudnn" >&2
  exit 2
fi

# Libraries of C or C++, of NVIDIA, or of the MPI installation.
is_left_out() {
  case $1 in
    linux-vdso.so* | ld-linux* | libc.so* | libm.so* | libdl.so* | \
    libpthread.so* | librt.so* | libresolv.so* | libutil.so* | libnsl.so* | \
    libanl.so* | libBrokenLocale.so* | libthread_db.so* | libnss_* | \
    libstdc++.so* | libgcc_s.so*) return 0 ;;
    libcuda.so* | libcudart.so* | libcudnn*.so* | libcublas*.so* | \
    libnvrtc*.so* | libnvidia-*.so*) return 0 ;;
    libmpi*.so* | libopen-rte.so* | libopen-pal.so* | libompi*.so* | \
    libpmix.so* | libprrte.so*) return 0 ;;
  esac
  return 1
}

# Prints "name path" of what a program or library needs, directly and indirectly,
# except what only the excluded libraries need.
needed_by() {
  local file=$1 resolved name path
  resolved=$(ldd "$file" | awk '$2 == "=>" { print $1, $3 }')
  if grep -q ' not$' <<<"$resolved"; then
    echo "bundle.sh: $file lacks libraries:" >&2
    grep ' not$' <<<"$resolved" | cut -d' ' -f1 >&2
    return 1
  fi
  local queue=("$file") seen=" "
  while [ ${#queue[@]} -gt 0 ]; do
    local next=${queue[0]}
    queue=("${queue[@]:1}")
    for name in $(patchelf --print-needed "$next"); do
      is_left_out "$name" && continue
      [[ $seen == *" $name "* ]] && continue
      seen+="$name "
      path=$(awk -v n="$name" '$1 == n { print $2; exit }' <<<"$resolved")
      echo "$name $path"
      queue+=("$path")
    done
  done
}

mkdir -p "$folder/bin" "$folder/lib"
for program in "$@"; do
  [ -x "$program" ] || { echo "bundle.sh: no program $program" >&2; exit 1; }
  needed=$(needed_by "$program")
  while read -r name path; do
    [ -n "$name" ] || continue
    [ -e "$folder/lib/$name" ] && continue
    install -m 755 "$(readlink -f "$path")" "$folder/lib/$name"
    strip --strip-unneeded "$folder/lib/$name"
    # shellcheck disable=SC2016  # the loader expands it
    patchelf --set-rpath '$ORIGIN' "$folder/lib/$name"
  done <<<"$needed"
  copy=$folder/bin/$(basename "$program")
  install -m 755 "$program" "$copy"
  if head -c 4 "$copy" | grep -q ELF; then
    strip "$copy"
    # shellcheck disable=SC2016
    patchelf --set-rpath '$ORIGIN/../lib' "$copy"
  fi
done

size=$(du -sm "$folder" | cut -f1)
count() { find "$1" -type f | wc -l; }
echo "$folder: $(count "$folder/bin") programs, $(count "$folder/lib")" \
  "libraries, $size MB"
