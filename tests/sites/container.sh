#!/usr/bin/env bash
# Builds both images of deploy/container/Containerfile with buildah, and runs the
# programs in them as the user that they are for. mmdebstrap makes Debian's base
# image, so no registry of images is needed, only Debian's archive. Takes some
# minutes; for people to run, as root:
#
#   apt-get install buildah mmdebstrap
#   container.sh FOLDER_OF_DEBS
#
# 77: it cannot run here, and says why.
set -euo pipefail
debs=$(cd "$1" && pwd)
file=$(cd "$(dirname "$0")/../.." && pwd)/deploy/container/Containerfile
for tool in buildah mmdebstrap; do
  command -v $tool >/dev/null ||
    { echo "container.sh: not run: there is no $tool"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "container.sh: not run: not as root"; exit 77; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
oci() {
  buildah --root "$tmp/root" --runroot "$tmp/run" --storage-driver vfs "$@"
}
fail() {
  echo "container.sh: $*" >&2
  tail -n 30 "$tmp/log" >&2
  exit 1
}
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$tmp/policy.json"
unsigned=(--signature-policy "$tmp/policy.json")

image=$(sed -n 's/^FROM \(.*\) AS base$/\1/p' "$file")
# Debian 12.
mmdebstrap --variant=minbase bookworm "$tmp/base.tar" >"$tmp/log" 2>&1 ||
  fail "mmdebstrap fails"
base=$(oci from scratch)
oci add "$base" "$tmp/base.tar" / >"$tmp/log"
oci commit "${unsigned[@]}" --rm "$base" "$image" >"$tmp/log" 2>&1 ||
  fail "there is no base image"

mkdir "$tmp/packages"
cp "$debs"/*.deb "$tmp/packages"
# run TARGET SCRIPT: builds an image and runs the script in it; its output goes
# to the log.
run() {
  local container
  oci build-using-dockerfile "${unsigned[@]}" --pull-never -f "$file" \
    --target "$1" -t "$1" "$tmp/packages" >"$tmp/log" 2>&1 ||
    fail "the image $1 does not build"
  container=$(oci from "${unsigned[@]}" --pull-never "localhost/$1")
  oci run "$container" -- sh -ec "$2" >"$tmp/log" 2>&1 ||
    fail "the image $1 does not run"
  echo "ok $1"
}
# shellcheck disable=SC2016  # the image's shell expands it
run daemons '
test "$(id -u)" = 65532
test ! -e /packages
cd "$HOME"
ucudnn-agent --version
ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
  --database "sqlite://$HOME/coordinator.db" --create --ready-file "$HOME/ready" &
for i in $(seq 300); do
  test ! -s ready || break
  sleep 0.1
done
port=$(sed "s/.*\"grpc_port\":\([0-9]*\).*/\1/" ready)
ucudnn status --coordinator "127.0.0.1:$port"
kill $!
wait $!'
# shellcheck disable=SC2016
run job '
test "$(id -u)" = 65532
ucudnn-train --version
python3 -c "import ucudnn; print(ucudnn.solve_allocation([ucudnn.Buffer(\"a\", 0, 1, 8)]))"
mpirun --version
ssh-keygen -q -t rsa -N "" -f "$HOME/.ssh/id_rsa"
/usr/sbin/sshd -t -f "$HOME/sshd_config"'
