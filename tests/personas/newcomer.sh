#!/usr/bin/env bash
# A newcomer on a machine with the packages: reads the manual, starts the
# daemons, sets where they are, completes words, plans a network, has the plan explained, and
# trains it on two ranks.
#
#   newcomer.sh ROOT
source "$(dirname "$0")/common.sh" "$1"

for program in ucudnn ucudnn-agent ucudnn-coord ucudnn-train \
  ucudnn-plan ucudnn-networks-put ucudnn-coord-serve; do
  man --warnings "$program" >"$tmp/page" 2>"$tmp/warnings" || fail "no man page of $program"
  [ ! -s "$tmp/warnings" ] || fail "man $program: $(cat "$tmp/warnings")"
done
says "--workspace-limit SIZE" man ucudnn-plan
for page in changelog.gz docs/memory.md docs/guide/operations.md; do
  [ -s "$root/usr/share/doc/ucudnn/$page" ] || fail "the packages have no $page"
done
says "did you mean plan?" ucudnn plna
says "did you mean --log-level?" ucudnn-agent --loglevel debug
says "HOST:PORT=127.0.0.1:7460" ucudnn-coord serve --help
says "in [3 - 10000]=30" ucudnn-agent --help
says "{FP32,TF32}=FP32" ucudnn-train --help
says "no coordinator answers at 127.0.0.1:1: Connection refused" ucudnn devices --coordinator 127.0.0.1:1
[ $status = 4 ] || fail "an unreachable coordinator has exit status $status"
says "at nosuchhost.invalid:7460: Name or service not known" ucudnn devices --coordinator nosuchhost.invalid:7460

start_coordinator
ucudnn config set coordinator "127.0.0.1:$grpc" >/dev/null
start_agent node-1 --cpu-threads 1
ucudnn networks put small "$tmp/small.csv"
says "coordinator  127.0.0.1:$grpc" ucudnn config
config=$XDG_CONFIG_HOME/ucudnn/config.toml
cp "$config" "$tmp/config.toml"
echo 'coordinatr = "x"' >>"$config"
says "config.toml:2: there is no setting 'coordinatr'" ucudnn devices
[ $status = 2 ] || fail "a mistyped setting has exit status $status"
cp "$tmp/config.toml" "$config"

says "is no name" ucudnn devices -o 'jsonpath={range [*]}{.id}'
says "table, json or yaml is accepted" ucudnn show node node-1 -o jsonpath={.id}

# Tables fit a narrow terminal.
SHELL=/bin/bash script -qec "stty cols 60; ucudnn devices" "$tmp/narrow" \
  >/dev/null </dev/null
narrow=$(tr -d '\r' <"$tmp/narrow" | grep -e DEVICE -e node-1)
[ "$(wc -l <<<"$narrow")" = 2 ] || fail "the table is folded: $narrow"
[ "$(wc -L <<<"$narrow")" -le 60 ] || fail "the table is too wide: $narrow"

# What bash offers after these words, as the installed script has it.
source "$root/usr/share/bash-completion/completions/ucudnn"
offers() {
  local wanted=$1
  shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _ucudnn "$1" 2>/dev/null
  [ "${COMPREPLY[*]}" = "$wanted" ] ||
    fail "'$*' is completed by '${COMPREPLY[*]}', not '$wanted'"
}
offers "small" ucudnn plan --network s
offers "small" ucudnn show network ""
offers "--network" ucudnn plan --net
offers "NCHW NHWC" ucudnn plan --layout = N
offers "node-1" ucudnn drain ""
offers "debug error info warn" ucudnn-agent --log-level ""
offers "check serve" ucudnn-coord ""
offers "FP32" ucudnn-train --precision F
offers "bash" ucudnn completion b

request=(--network small --batch 4 --workspace-limit 1MiB)
says "measurements" ucudnn plan "${request[@]}" --dry-run
says "conv2" ucudnn plan "${request[@]}" --save "$tmp/plan.json"
grep -q micro_batches "$tmp/plan.json" || fail "the saved plan has no micro-batches"
offers "1" ucudnn explain ""
says "RUNNER-UP" ucudnn explain 1
says "one more" ucudnn explain 1
says "at batch 4" ucudnn show plan 1
says " × " ucudnn show plan 1
curl -sf "http://127.0.0.1:$http/" | grep -qi "<html" || fail "there is no page"
# The page's first steps name this port.
says "\"grpc_port\": $grpc" curl -s "http://127.0.0.1:$http/v1/status"

timeout 120 mpirun -n 2 ucudnn-train --coordinator "127.0.0.1:$grpc" \
  --network "$tmp/small.csv" --batch 4 --memory-budget 1MiB,512KiB --wait 60 --steps 3 \
  --threads 1 -o json </dev/null >"$tmp/train.json" 2>"$tmp/train.log" ||
  fail "the training fails"
python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["source"] == "coordinator", report["reason"]
for rank, budget in zip(report["ranks"], (1 << 20, 512 << 10), strict=True):
    assert rank["batch"] == 0 or rank["peak_bytes"] <= budget, rank
' "$tmp/train.json"
echo "ok newcomer"
