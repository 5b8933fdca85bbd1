#!/usr/bin/env bash
# Everything on this machine, from scratch: starts a coordinator and an agent,
# measures this machine's devices, plans shares and memory of two ranks with
# unlike budgets, trains a small network as planned, and compares: predicted
# with measured times, the planned shares with even ones, and both with one rank
# that has all the memory it wants.
#
#   bash deploy/quickstart.sh          stops the daemons at the end
#   bash deploy/quickstart.sh --keep   leaves them running, and says what to try
#
# In the sources it first installs missing packages and builds; a second run
# skips finished steps. Where the Debian packages installed it, it uses their
# programs.
set -euo pipefail
source_tree=$(cd "$(dirname "$0")/.." && pwd)
network_file=$(cd "$(dirname "$0")" && pwd)/resnet20_cifar.onnx

keep=false
case "${1:-}" in
  "") ;;
  --keep) keep=true ;;
  *)
    echo "usage: bash quickstart.sh [--keep]" >&2
    exit 2
    ;;
esac

say() { printf '\n== %s\n' "$*"; }

# counted LOG: writes what a build prints to the log, and shows one line that
# counts its steps.
counted() {
  local line step=""
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    step="${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} steps"
    [ ! -t 1 ] || printf '\r\033[Kbuilt %s' "$step"
  done
  [ -t 1 ] && [ -n "$step" ] && printf '\r\033[K' || true
  echo "built${step:+ in $step}"
}

build() {
  local log=$state/build.log
  : >"$log"
  if ! { cmake --preset release -DBUILD_TESTING=OFF >>"$log" 2>&1 &&
    cmake --build --preset release 2>&1 | counted "$log"; }; then
    tail -n 40 "$log" >&2
    echo "the build fails; its output is in $log" >&2
    return 1
  fi
}

if [ -f "$source_tree/CMakePresets.json" ]; then
  cd "$source_tree"
  state=$source_tree/.quickstart
  mkdir -p "$state"
  say "Packages"
  bash deploy/install-packages.sh
  echo "all are installed"
  say "Build (minutes the first time; its output is in $state/build.log)"
  build
  bin=$source_tree/build/release/bin
  export PATH=$bin:$PATH
else
  state=${XDG_STATE_HOME:-$HOME/.local/state}/ucudnn-quickstart
  mkdir -p "$state"
  bin=$(dirname "$(command -v ucudnn)")
fi
SECONDS=0

coordinator_pid="" agent_pid=""
stop() {
  for pid in $agent_pid $coordinator_pid; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
finish() {
  status=$?
  $keep && [ $status -eq 0 ] || stop
  exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits at most a minute for a command to succeed.
await() {
  local what=$1 log=$2 i
  shift 2
  for ((i = 0; i < 600; ++i)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  echo "$what did not start; its log:" >&2
  tail -n 20 "$log" >&2
  return 1
}

# The port, or 0 for any if something listens there.
free_port() {
  if (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then echo 0; else echo "$1"; fi
}

say "Coordinator"
if [ -f "$state/pids" ]; then
  # Daemons that an earlier --keep left.
  # shellcheck disable=SC2046
  kill $(cat "$state/pids") 2>/dev/null && sleep 1 || true
  rm -f "$state/pids"
fi
rm -f "$state/ready.json"
setsid ucudnn-coord serve --listen "127.0.0.1:$(free_port 7460)" \
  --http "127.0.0.1:$(free_port 7461)" \
  --database "sqlite://$state/coordinator.db" --create \
  --ready-file "$state/ready.json" 2>"$state/coordinator.log" &
coordinator_pid=$!
await "the coordinator" "$state/coordinator.log" test -f "$state/ready.json"
port() { sed -n "s/.*\"$1_port\":\([0-9]*\).*/\1/p" "$state/ready.json"; }
export UCUDNN_COORDINATOR=127.0.0.1:$(port grpc)
page=http://127.0.0.1:$(port http)/
ucudnn status
echo "its page: $page"

say "Agent"
# Two ranks will share the CPU, so it is measured as two devices at once. OpenMP
# threads must not spin, because ranks and daemons share the cores.
export OMP_WAIT_POLICY=passive
setsid ucudnn-agent --cpu-devices 2 --repeats 9 2>"$state/agent.log" &
agent_pid=$!
device_online() { ucudnn devices | grep -q ' idle '; }
await "the agent" "$state/agent.log" device_online
ucudnn devices

say "Network: ResNet-20 for CIFAR's images"
ucudnn networks put resnet20_cifar "$network_file"
ucudnn show network resnet20_cifar | sed -n '1,6p'
echo "... (all of it: ucudnn show network resnet20_cifar)"

say "Plan: shares and memory of two ranks (measures this machine the first time)"
memory=(--batch 64 --memory-budget 80MiB,40MiB)
ucudnn plan --network resnet20_cifar "${memory[@]}" --momentum >"$state/plan"
sed -n '1,12p' "$state/plan"
echo "... (all of it: $state/plan; why: ucudnn explain)"

# trained NAME RANKS ARGUMENTS...: trains the network, and shows and keeps what
# the job reports.
trained() {
  local root=()
  [ "$(id -u)" -ne 0 ] || root=(--allow-run-as-root)
  mpirun -np "$2" --bind-to none "${root[@]}" ucudnn-train \
    --network "$network_file" --cpu-devices 2 --steps 12 \
    --measurements "$state/measured.json" "${@:3}" \
    2>"$state/$1.log" | tee "$state/$1" || {
    cat "$state/$1.log" >&2
    return 1
  }
}
export OMPI_MCA_rmaps_base_oversubscribe=1
say "Job: two MPI ranks train as planned"
trained planned 2 "${memory[@]}"
say "The same with even shares"
trained even 2 "${memory[@]}" --even
say "The same on one rank without a budget"
trained alone 1 --batch 64

say "Compared: a step, and what was learned"
for run in planned even alone; do
  printf '%-8s %s; %s\n' "$run" \
    "$(sed -n 's/^slowest .*, \(step .*\)/\1/p' "$state/$run")" \
    "$(sed -n 's/^loss //p' "$state/$run")"
done

say "Done, $SECONDS s after the programs were there"
if $keep; then
  echo "$coordinator_pid $agent_pid" >"$state/pids"
  cat <<EOF
The daemons are still running (logs in $state). Try:
  export PATH=$bin:\$PATH UCUDNN_COORDINATOR=$UCUDNN_COORDINATOR
  ucudnn networks put mynet FILE.onnx
  ucudnn plan --network mynet --batch 16 --memory-budget 2GiB,1GiB
  ucudnn explain 1
  curl ${page}v1/status
End them with:
  kill $coordinator_pid $agent_pid
What they do is shown at
  $page
EOF
else
  echo "Run again with --keep to look at it at"
  echo "  $page"
fi
