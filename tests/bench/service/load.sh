#!/usr/bin/env bash
# The load of 10,000 agents and 200 long bodies on a machine that has more cores
# than this one, and neither PostgreSQL nor gRPC:
#
#   load.sh pack BUILD FILE.tar.xz       the programs of build tree BUILD with
#                                        all they need (tests/gpu/bundle.sh)
#   load.sh run OUT.jsonl [CPUS [ROW...]]
#                                        in the unpacked folder: runs the rows;
#                                        each result is a line of JSON at once
#
# Rows are, by default in this order, tls-sqlite, tls-postgres, sqlite and
# postgres (the agents), tls-bodies and bodies. All take about seven minutes, the
# first two half of that.
# CPUS are the coordinator's processors, such as 4-7; the load and PostgreSQL get
# the others. By default, or if empty, that on machines of eight or more, else
# all share all.
# UCUDNN_LOAD_AGENTS has another number of agents; UCUDNN_LOAD_SECONDS is how
# long each part takes that has no end of its own.
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
  XZ_OPT="-T0 -3" tar -caf "$file" -C "$folder" .
  du -m "$file"
}

# row NAME: a call of service_bench, ended after a while.
row() {
  local name=$1 status=0 arguments=() limit=150
  [[ $name != tls-* ]] || arguments+=(--tls)
  case ${name#tls-} in
    bodies) limit=60 && arguments+=(bodies) ;;
    *) arguments+=(--database "${name#tls-}" --agents "$agents" agents) ;;
  esac
  "${load[@]}" timeout "$limit" "$here/bin/service_bench" --json "$out" --seconds "$seconds" \
    ${cpus:+--coordinator-cpus "$cpus"} "${arguments[@]}" 2>"$home/error" || status=$?
  [ $status -eq 0 ] ||
    echo "{\"row\":\"$name\",\"status\":$status,\"error\":\"$(tail -1 "$home/error" | tr -d '"\\')\"}" |
    tee -a "$out"
}

run() {
  local names=("${@:3}") count others='' load=() name
  out=$(realpath "$1") cpus=${2-}
  seconds=${UCUDNN_LOAD_SECONDS:-15} agents=${UCUDNN_LOAD_AGENTS:-10000}
  [ ${#names[@]} -gt 0 ] || names=(tls-sqlite tls-postgres sqlite postgres tls-bodies bodies)
  for name in "${names[@]}"; do
    [[ $name =~ ^(tls-)?(sqlite|postgres|bodies)$ ]] || usage
  done
  count=$(nproc)
  if [ -z "$cpus" ] && [ "$count" -ge 8 ]; then cpus=$((count / 2))-$((count / 2 + 3)); fi
  if [ -n "$cpus" ]; then
    others=$(comm -23 <(seq 0 $((count - 1)) | sort) \
      <(for part in ${cpus//,/ }; do seq "${part%-*}" "${part#*-}"; done | sort) |
      sort -n | paste -sd,)
    load=(taskset -c "$others")
  fi
  ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
  # PostgreSQL runs as nobody if we are root, who may not enter our folder.
  home=$(mktemp -d)
  trap 'rm -rf "$home"' EXIT
  cp -r "$here/pg" "$here/lib" "$home"
  chmod 755 "$home"
  UCUDNN_POSTGRES_BIN=$(echo "$home"/pg/lib/postgresql/*/bin)
  export UCUDNN_POSTGRES_BIN
  export UCUDNN_BIN_DIR=$here/bin UCUDNN_TEST_DATA=$here/tests/data PATH=$here/bin:$PATH
  echo "{\"revision\":\"$(cat "$here/REVISION")\",\"processors\":$count,\
\"model\":\"$(sed -n '/model name/{s/.*: //p;q}' /proc/cpuinfo)\",\
\"coordinator\":\"$cpus\",\"load\":\"$others\",\"files\":$(ulimit -n)}" | tee "$out"
  for name in "${names[@]}"; do row "$name"; done
}

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

case ${1-}:$# in
  pack:3) pack "$2" "$3" ;;
  run:1) usage ;;
  run:*) run "${@:2}" ;;
  *) usage ;;
esac
