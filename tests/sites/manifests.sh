#!/usr/bin/env bash
# What sites are given beside packages: Kubernetes manifests render and fit
# together, alerts fire when they should, the dashboard's queries parse, and all
# of them name options, metrics and packages that exist.
#
#   manifests.sh BIN_FOLDER
set -euo pipefail
bin=$1
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

kubectl kustomize deploy/kubernetes >"$tmp/rendered.yaml"
python3 tests/sites/manifests.py "$bin" "$tmp/rendered.yaml" \
  deploy/kubernetes/mpijob.yaml

kubectl kustomize deploy/kubernetes-tls >"$tmp/rendered-tls.yaml"
sed 's/^\( *\)#tls /\1/' deploy/kubernetes/mpijob.yaml >"$tmp/mpijob-tls.yaml"
python3 tests/sites/manifests.py --tls "$bin" "$tmp/rendered-tls.yaml" \
  "$tmp/mpijob-tls.yaml"

# The settings and variables that the packages' files suggest exist.
bash deploy/certificates.sh init --dir "$tmp" --cluster test >"$tmp/said"
bash deploy/certificates.sh issue --dir "$tmp" coordinator coord-1 --host coord-1 >"$tmp/said"
install -m 600 /dev/null "$tmp/tokens"
sed "s/^#\([a-z-]* = \)/\1/; /^database/d; s|/etc/ucudnn|$tmp|" \
  deploy/systemd/coordinator.toml >"$tmp/coordinator.toml"
"$bin/ucudnn-coord" check "$tmp/coordinator.toml"
for key in $(sed -n 's/^#*\([a-z-]*\) = .*/\1/p' deploy/systemd/agent.toml); do
  "$bin/ucudnn-agent" complete-words "--$key" | grep -qx -- "--$key" ||
    { echo "manifests.sh: agent.toml: there is no setting $key" >&2; exit 1; }
done
for variable in $(sed -n 's/^#\(UCUDNN_[A-Z_]*\)=.*/\1/p' \
  deploy/systemd/ucudnn-*.default); do
  grep -qF "\"$variable\"" base/service/credentials.h agent/agent_main.cc ||
    grep -qF "\$$variable" deploy/systemd/ucudnn-*.service ||
    { echo "manifests.sh: nobody reads $variable" >&2; exit 1; }
done

promtool check rules deploy/monitoring/alerts.yaml
cp deploy/monitoring/alerts.yaml tests/sites/alerts_test.yaml "$tmp"
(cd "$tmp" && promtool test rules alerts_test.yaml)

# Queries are read as the rules of recordings.
python3 - deploy/monitoring/grafana.json >"$tmp/queries.yaml" <<'PY'
import json, sys
panels = json.load(open(sys.argv[1]))["panels"]
assert len({panel["id"] for panel in panels}) == len(panels)
queries = [t["expr"] for panel in panels for t in panel["targets"]]
rules = [{"record": f"query:{n}", "expr": q} for n, q in enumerate(queries)]
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
PY
promtool check rules "$tmp/queries.yaml"

# The container file takes packages that there are.
for package in $(grep -o '/packages/[a-z0-9-]*_' deploy/container/Containerfile |
  sed 's|/packages/||; s/_$//' | sort -u); do
  grep -q "package($package\$" cmake/packages.cmake ||
    { echo "manifests.sh: there is no package $package" >&2; exit 1; }
done
# Debian has the others.
for package in $(sed -n 's/^ *\([a-z][a-z0-9 +.-]*\) *\\$/\1/p' deploy/container/Containerfile); do
  apt-cache show --no-all-versions "$package" >/dev/null ||
    { echo "manifests.sh: Debian has no package $package" >&2; exit 1; }
done
echo "ok manifests"
