#!/usr/bin/env bash
# An administrator: makes certificates and tokens, has the coordinator speak TLS,
# gives each person what they may do and takes it back, limits what is kept, and
# finds what the packages bring for the site.
#
#   administrator.sh ROOT
source "$(dirname "$0")/common.sh" "$1"

for file in etc/default/ucudnn-coord etc/default/ucudnn-agent \
  lib/systemd/system/ucudnn-coord.service lib/systemd/system/ucudnn-agent.service \
  usr/share/ucudnn/slurm/prolog.sh usr/share/ucudnn/slurm/hetjob.sbatch \
  usr/share/ucudnn/monitoring/alerts.yaml usr/share/ucudnn/monitoring/grafana.json; do
  [ -s "$root/$file" ] || fail "there is no $file"
done

# Without TLS it serves its own machine only.
says "--insecure" ucudnn-coord serve --listen 0.0.0.0:0 --database "sqlite://$tmp/open.db" --create
[ $status = 2 ] || fail "an open coordinator ends with status $status"

certs=$tmp/certs
certificates=$root/usr/share/ucudnn/certificates.sh
"$certificates" init --dir "$certs" --cluster rack7 >/dev/null
"$certificates" issue --dir "$certs" coordinator coord-1 --host localhost,127.0.0.1 >/dev/null
"$certificates" issue --dir "$certs" agent node-1 >/dev/null
for person in "admin root" "operator alice"; do
  # shellcheck disable=SC2086
  "$certificates" issue --dir "$certs" --days 30 $person >/dev/null
done
(umask 077 && "$certificates" token viewer bob --tokens "$tmp/tokens" >"$tmp/bob.token")
says "--renew replaces it" "$certificates" issue --dir "$certs" agent node-1
says "agent/node-1" "$certificates" list --dir "$certs"
[ "$(stat -c %a "$certs/ca.key")" = 600 ] || fail "anyone can read ca.key"

cat >"$tmp/tls.toml" <<TOML
ca = "$certs/ca.crt"
cert = "$certs/coordinator-coord-1.crt"
key = "$certs/coordinator-coord-1.key"
revoked = "$certs/revoked.pem"
tokens = "$tmp/tokens"
keep-jobs-days = 90
TOML
settings=$tmp/tls.toml
says "no errors found" ucudnn-coord check "$settings"
start_coordinator
export UCUDNN_COORDINATOR=localhost:$grpc

# as ROLE-NAME COMMAND...: with that person's certificate.
as() {
  ucudnn "${@:2}" --ca "$certs/ca.crt" --cert "$certs/$1.crt" --key "$certs/$1.key"
}
bob() { ucudnn "$@" --ca "$certs/ca.crt" --token-file "$tmp/bob.token"; }
refused() {
  says "$1" "${@:2}"
  [ $status = 4 ] || fail "'${*:2}' ends with status $status"
}
refused "certificate" ucudnn devices --ca "$certs/ca.crt"
refused "it speaks TLS" ucudnn devices
"$certificates" init --dir "$tmp/others" --cluster rack8 >/dev/null
refused "no authority in $tmp/others/ca.crt has signed its certificate" ucudnn devices --ca "$tmp/others/ca.crt"
[[ $output != *E[01]* ]] || fail "gRPC's own log is shown: $output"
refused "; not for 0.0.0.0" ucudnn devices --coordinator "0.0.0.0:$grpc" --ca "$certs/ca.crt"
as operator-alice networks put small "$tmp/small.csv"
says "small" bob networks
refused "ucudnn cancel: viewer bob" bob cancel 1
says "there is no network 'smal'; did you mean small?" bob show network smal
# The same from bob's own settings.
(cd "$certs" && ucudnn config set ca ca.crt >/dev/null)
ucudnn config set token-file "$tmp/bob.token" >/dev/null
says "small" ucudnn networks
rm "$XDG_CONFIG_HOME/ucudnn/config.toml"
refused "operator alice" as operator-alice networks rm small
curl -s --cacert "$certs/ca.crt" "https://localhost:$http/readyz" >"$tmp/readyz" ||
  fail "REST does not speak TLS"

as admin-root networks >/dev/null
curl -s --cacert "$certs/ca.crt" --cert "$certs/admin-root.crt" --key "$certs/admin-root.key" \
  "https://localhost:$http/metrics" >"$tmp/metrics" || fail "there are no metrics"
for role in coordinator admin operator; do
  grep -q "^ucudnn_certificate_expires_timestamp_seconds{role=\"$role\"} 1" "$tmp/metrics" ||
    fail "no metric tells when a certificate of role $role expires"
done

ucudnn-agent --config "$root/etc/ucudnn/agent.toml" --id node-1 --cpu-threads 1 --repeats 3 \
  --coordinator "localhost:$grpc" --ca "$certs/ca.crt" --cert "$certs/agent-node-1.crt" \
  --key "$certs/agent-node-1.key" 2>"$tmp/agent.log" &
daemons+=($!)
measures() { bob devices -o jsonpath='{[*].state}' | grep -q idle; }
await "the agent is online" measures
as operator-alice plan --network small --batch 2 --workspace-limit 1MiB >/dev/null ||
  fail "an operator gets no plan"
as operator-alice cordon node-1 --reason "new fans" >/dev/null
as admin-root history -o json >"$tmp/history.json"
grep -q "operator alice" "$tmp/history.json" || fail "the history does not name who"

# What is taken back is refused once the coordinator has read its files again.
"$certificates" revoke --dir "$certs" "$certs/operator-alice.crt" >/dev/null
kill -HUP "$coordinator"
is_refused() { ! as operator-alice devices; }
await "alice is refused" is_refused
says "WOULD BE REMOVED" as admin-root prune --dry-run
echo "ok administrator"
