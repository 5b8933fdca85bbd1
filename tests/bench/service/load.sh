#!/usr/bin/env bash
# The load of 10,000 agents and 200 long bodies on a machine that has more cores
# than this one, and neither PostgreSQL nor gRPC:
#
#   load.sh pack BUILD FILE.tar.xz   the programs of build tree BUILD with all
#                                    they need (tests/gpu/bundle.sh)
#   load.sh run OUT.json [CPUS]      in the unpacked folder: runs the rows, and
#                                    writes them as one JSON object
#
# CPUS are the coordinator's processors, such as 4-7; the load and PostgreSQL get
# the others. By default that on machines of eight or more, else all share all.
# UCUDNN_LOAD_AGENTS has another number of agents; UCUDNN_LOAD_SECONDS is how
# long each row takes that has no end of its own.
set -euo pipefail
here=$(dirname "$(realpath "$0")")

pack() {
  local build=$1 file=$2 source=$here/../../.. pg version
  version=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -1)
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  pg=/usr/lib/postgresql/$version
  "$source/tests/gpu/bundle.sh" -o "$folder" "$build"/bin/{service_bench,ucudnn-coord} \
    "$pg"/bin/{postgres,initdb} "$(command -v openssl)"
  # PostgreSQL finds its files from where its programs are.
  mkdir -p "$folder/pg/lib/postgresql/$version/bin" "$folder/pg/share/postgresql" \
    "$folder/tests/data/networks" "$folder/deploy"
  for program in postgres initdb; do
    mv "$folder/bin/$program" "$folder/pg/lib/postgresql/$version/bin"
    # shellcheck disable=SC2016  # the loader expands it
    patchelf --set-rpath '$ORIGIN/../../../../../lib' \
      "$folder/pg/lib/postgresql/$version/bin/$program"
  done
  mkdir "$folder/pg/lib/postgresql/$version/lib"
  cp "$pg"/lib/{plpgsql,dict_snowball}.so "$folder/pg/lib/postgresql/$version/lib"
  cp -rL "/usr/share/postgresql/$version" "$folder/pg/share/postgresql"
  rm -rf "$folder/pg/share/postgresql/$version/"{man,contrib}
  cp "$source/tests/data/networks/alexnet_owt.csv" "$folder/tests/data/networks"
  cp "$source/deploy/certificates.sh" "$folder/deploy"
  cp "$here/load.sh" "$folder"
  git -C "$source" describe --always --dirty >"$folder/REVISION"
  chmod -R a+rX "$folder"
  tar -caf "$file" -C "$folder" .
  du -m "$file"
}

# row SECONDS ARGUMENT...: a call of service_bench, ended after so long.
row() {
  local limit=$1 status=0
  shift
  $load timeout "$limit" "$here/bin/service_bench" --json "$rows" --seconds "$seconds" \
    ${cpus:+--coordinator-cpus "$cpus"} "$@" 2>"$rows.err" || status=$?
  [ $status -eq 0 ] ||
    echo "{\"row\":\"$*\",\"status\":$status,\"error\":\"$(tail -1 "$rows.err" | tr -d '"\\')\"}" |
    tee -a "$rows"
  write
}

# Writes what there is so far.
write() {
  {
    echo "{\"revision\":\"$(cat "$here/REVISION")\",\"processors\":$count,"
    echo "\"model\":\"$(sed -n '/model name/{s/.*: //p;q}' /proc/cpuinfo)\","
    echo "\"coordinator\":\"$cpus\",\"load\":\"$others\",\"files\":$(ulimit -n),"
    echo "\"rows\":[$(paste -sd, "$rows")]}"
  } >"$out"
}

run() {
  local tls database
  out=$1 others=''
  seconds=${UCUDNN_LOAD_SECONDS:-15} agents=${UCUDNN_LOAD_AGENTS:-10000} load='' cpus=${2-}
  count=$(nproc)
  if [ -z "$cpus" ] && [ "$count" -ge 8 ]; then cpus=$((count / 2))-$((count / 2 + 3)); fi
  if [ -n "$cpus" ]; then
    others=$(comm -23 <(seq 0 $((count - 1)) | sort) \
      <(for part in ${cpus//,/ }; do seq "${part%-*}" "${part#*-}"; done | sort) |
      sort -n | paste -sd,)
    load="taskset -c $others"
  fi
  ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
  rows=$(mktemp)
  export UCUDNN_BIN_DIR=$here/bin UCUDNN_TEST_DATA=$here/tests/data PATH=$here/bin:$PATH
  UCUDNN_POSTGRES_BIN=$(echo "$here"/pg/lib/postgresql/*/bin)
  export UCUDNN_POSTGRES_BIN
  for tls in '' --tls; do
    # shellcheck disable=SC2086
    row 60 $tls bodies
    for database in sqlite postgres; do
      # shellcheck disable=SC2086
      row 150 --database $database --agents "$agents" $tls agents
    done
  done
  rm -f "$rows" "$rows.err"
}

case ${1-}:$# in
  pack:3) pack "$2" "$3" ;;
  run:2 | run:3) run "${@:2}" ;;
  *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
