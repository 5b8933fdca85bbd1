#!/usr/bin/env bash
# A name server that does not answer: the system waits 10 s for it, and as long
# for each search domain. Programs name the address within 5 s and a bit.
#
#   nameserver.sh BIN_FOLDER
#
# Needs root, for namespaces; otherwise it exits with status 77.
set -euo pipefail
if [ "${2:-}" != inside ]; then
  unshare -n -m true 2>/dev/null || { echo "no namespaces can be made"; exit 77; }
  exec unshare -n -m bash "$0" "$1" inside
fi
ip link set lo up
ip link add hole type veth peer name drain
ip link set drain up
ip addr add 192.0.2.2/24 dev hole
ip link set hole up
ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev hole
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
printf 'nameserver 192.0.2.1\nsearch a.example b.example\n' >"$tmp/resolv.conf"
mount --bind "$tmp/resolv.conf" /etc/resolv.conf
printf 'hosts: files dns\n' >"$tmp/nsswitch.conf"
mount --bind "$tmp/nsswitch.conf" /etc/nsswitch.conf

# says WORDS COMMAND...: within 8 s, on a busy machine.
says() {
  local words=$1 begun=$SECONDS
  shift
  timeout 30 "$@" >"$tmp/said" 2>&1 || true
  grep -qE -- "$words" "$tmp/said" && [ $((SECONDS - begun)) -le 8 ] || {
    echo "nameserver.sh: '$*' says after $((SECONDS - begun)) s, without '$words':" >&2
    tail -n 3 "$tmp/said" >&2
    exit 1
  }
}
says 'coord-1\.cluster\.example:7460' \
  "$1/ucudnn" --coordinator coord-1.cluster.example:7460 networks
says 'database at db\.example:5433: .*no name server' \
  "$1/ucudnn-coord" serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
  --database postgresql://u:secret@db.example:5433/ucudnn
! grep -q secret "$tmp/said"
echo "ok without a name server"
