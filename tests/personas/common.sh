# What the personas share: the programs of the installed packages first in every
# path, nothing of the build tree, and daemons that end with the script.
#
#   source common.sh ROOT
set -euo pipefail
export LC_ALL=C.UTF-8
root=$(cd "$1" && pwd)
tmp=$(mktemp -d)
libraries=$(dirname "$(find "$root/usr/lib" -name libucudnn.so.0)")
export PATH=$root/usr/bin:$PATH
export LD_LIBRARY_PATH=$libraries
export PYTHONPATH=$root/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1
export MANPATH=$root/usr/share/man
export HOME=$tmp XDG_CONFIG_HOME=$tmp/config UCUDNN_CACHE_DIR=$tmp/cache
export OMP_WAIT_POLICY=passive CUDA_VISIBLE_DEVICES=''
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_orte_tmpdir_base=$tmp  # mpiruns of tests share no folder
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none
unset UCUDNN_COORDINATOR UCUDNN_PLAN_FILE UCUDNN_LIBRARY

daemons=()
end() {
  local pid
  for pid in "${daemons[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$tmp"
}
trap end EXIT

fail() {
  echo "$(basename "$0"): $*" >&2
  tail -n 5 "$tmp"/*.log >&2 2>/dev/null || true
  exit 1
}

source "$(dirname "${BASH_SOURCE[0]}")/../support/await.sh"

# says WORDS COMMAND...: the command prints the words; its status is $status.
status=0
says() {
  local words=$1
  shift
  status=0
  output=$("$@" 2>&1) || status=$?
  grep -qF -- "$words" <<<"$output" ||
    fail "'$*' does not say '$words' but (status $status): $output"
}

# start_coordinator: with the installed settings, or others in $settings, but for
# ports and the database; again on the same ports if it ran before.
settings=$root/etc/ucudnn/coordinator.toml
start_coordinator() {
  rm -f "$tmp/ready"
  ucudnn-coord serve --config "$settings" \
    --listen "127.0.0.1:${grpc:-0}" --http "127.0.0.1:${http:-0}" \
    --database "sqlite://$tmp/coordinator.db" --create --ready-file "$tmp/ready" \
    --agent-timeout-ms 2000 --heartbeat-ms 200 --poll-after-ms 50 \
    2>>"$tmp/coordinator.log" &
  coordinator=$!
  daemons+=("$coordinator")
  await "the coordinator serves" test -s "$tmp/ready"
  grpc=$(sed 's/.*"grpc_port":\([0-9]*\).*/\1/' "$tmp/ready")
  http=$(sed 's/.*"http_port":\([0-9]*\).*/\1/' "$tmp/ready")
}

# start_agent NAME ARGUMENTS...: and waits until a device is online.
start_agent() {
  ucudnn-agent --config "$root/etc/ucudnn/agent.toml" \
    --coordinator "127.0.0.1:$grpc" --id "$1" --repeats 3 "${@:2}" \
    2>>"$tmp/agent.log" &
  agent=$!
  daemons+=("$agent")
  await "the agent is online" online
}
online() { ucudnn devices -o jsonpath='{[*].state}' | grep -q idle; }

# Two small layers, which a core measures in a second or two.
cat >"$tmp/small.csv" <<'CSV'
name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups
conv1,3,16,16,8,3,3,1,1,1,1,1
conv2,8,16,16,8,3,3,1,1,1,1,1
CSV
