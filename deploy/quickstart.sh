#!/usr/bin/env bash
# Everything on this machine, from scratch: installs missing packages, builds,
# starts a coordinator and an agent, measures this machine's devices, prints the
# plan, and runs a two-rank MPI job that applies it and compares measured with
# predicted times.
#
#   bash deploy/quickstart.sh          stops the daemons at the end
#   bash deploy/quickstart.sh --keep   leaves them running, and says what to try
#
# A second run skips finished steps. State is kept in .quickstart/.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=false
case "${1:-}" in
  "") ;;
  --keep) keep=true ;;
  *)
    echo "usage: bash deploy/quickstart.sh [--keep]" >&2
    exit 2
    ;;
esac

say() { printf '\n== %s\n' "$*"; }

say "Packages"
bash deploy/install-packages.sh
echo "all are installed"

say "Build"
cmake --preset release -DBUILD_TESTING=OFF >/dev/null
cmake --build --preset release
bin=$PWD/build/release/bin
export PATH=$bin:$PATH

state=$PWD/.quickstart
mkdir -p "$state"
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
trap 'exit 130' INT TERM

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

say "Coordinator"
if [ -f "$state/pids" ]; then
  # Daemons that an earlier --keep left.
  # shellcheck disable=SC2046
  kill $(cat "$state/pids") 2>/dev/null && sleep 1 || true
  rm -f "$state/pids"
fi
rm -f "$state/ready.json"
setsid ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
  --database "sqlite://$state/coordinator.db" \
  --ready-file "$state/ready.json" 2>"$state/coordinator.log" &
coordinator_pid=$!
await "the coordinator" "$state/coordinator.log" test -f "$state/ready.json"
port() { sed -n "s/.*\"$1_port\":\([0-9]*\).*/\1/p" "$state/ready.json"; }
export UCUDNN_COORDINATOR=127.0.0.1:$(port grpc)
ucudnn status

say "Agent"
# Two ranks will share the CPU, so it is measured as two devices at once. OpenMP
# threads must not spin, because ranks and daemons share the cores.
export OMP_WAIT_POLICY=passive
setsid ucudnn-agent --cpu-devices 2 --repeats 9 2>"$state/agent.log" &
agent_pid=$!
device_online() { ucudnn devices | grep -q ' idle '; }
await "the agent" "$state/agent.log" device_online
ucudnn devices

say "Network"
ucudnn networks put quickstart deploy/quickstart.csv
ucudnn show network quickstart

say "Plan (measures this machine the first time)"
request=(--network quickstart --batch 32 --workspace-limit 12MiB --ranks 2)
ucudnn plan "${request[@]}"

say "Job: two MPI ranks apply the plan and check it"
launch=(mpirun -np 2 --bind-to none)
[ "$(id -u)" -eq 0 ] && launch+=(--allow-run-as-root)
export OMPI_MCA_rmaps_base_oversubscribe=1
"${launch[@]}" ucudnn-rehearse --network quickstart \
  --network-file deploy/quickstart.csv --batch 32 --workspace-limit 12MiB \
  --check --compare-undivided

if $keep; then
  echo "$coordinator_pid $agent_pid" >"$state/pids"
  cat <<EOF

The daemons are still running (logs in $state), and show what they do at
  http://127.0.0.1:$(port http)/
Try:
  export PATH=$bin:\$PATH UCUDNN_COORDINATOR=$UCUDNN_COORDINATOR
  ucudnn networks put mynet FILE.onnx
  ucudnn plan --network mynet --batch 16 --workspace-limit 16MiB
  ucudnn plans
  curl http://127.0.0.1:$(port http)/v1/status
End them with:
  kill $coordinator_pid $agent_pid
EOF
else
  echo
  echo "Done. Run with --keep to leave the daemons running and continue."
fi
