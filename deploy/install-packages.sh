#!/usr/bin/env bash
# Installs the Debian 12 packages that ucudnn needs and that are missing. Tests
# also need deploy/python-venv.sh.
#
#   bash deploy/install-packages.sh           to build and run
#   bash deploy/install-packages.sh --tests   also to run the tests
#   bash deploy/install-packages.sh --gpu     also for `tests/gpu/run.sh pack`
#
# Without root, or sudo without a password, it prints the command to run.
set -euo pipefail

packages=(
  # build
  g++ cmake ninja-build pkg-config ccache ca-certificates
  libexpected-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev
  libtomlplusplus-dev libyaml-cpp-dev zlib1g-dev coinor-libcbc-dev
  # service
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev
  libsqlitecpp-dev libsqlite3-dev libboost-dev prometheus-cpp-dev
  libcurl4-openssl-dev libssl-dev
  # optional parts
  libdnnl-dev libonnx-dev libopenmpi-dev openmpi-bin libpq-dev libglpk-dev
)
# npm builds the page of ucudnn-coord; one from elsewhere will do.
command -v npm >/dev/null || packages+=(npm)
test_packages=(
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  libcpp-httplib-dev
  postgresql curl openssl python3 clang libclang-rt-14-dev
  lld
  python3-venv
  libcurl3-gnutls
  chromium fonts-dejavu-core
  # Debian packages
  lintian help2man man-db sqlite3
  # sites
  prometheus python3-yaml systemd
  python3-matplotlib python3-scipy
)
# So will a kubectl from elsewhere, whose package excludes Debian's.
command -v kubectl >/dev/null || test_packages+=(kubernetes-client)
gpu_packages=(patchelf binutils xz-utils)
case "${1:-}" in
  '') ;;
  --tests) packages+=("${test_packages[@]}") ;;
  --gpu) packages+=("${test_packages[@]}" "${gpu_packages[@]}") ;;
  *)
    echo "install-packages.sh: '$1' is unknown; --tests and --gpu are" \
      "accepted" >&2
    exit 2
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  # shellcheck disable=SC2016
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
    grep -q '^install ok installed$' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo=(sudo)
  else
    {
      echo "These Debian packages are missing; as root, run:"
      echo "  apt-get update && apt-get install --no-install-recommends" \
        "${missing[@]}"
    } >&2
    exit 1
  fi
fi
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { "${sudo[@]}" apt-get update -q &&
  "${sudo[@]}" apt-get install -q -y --no-install-recommends \
    "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "apt-get failed; its full output is in $log" >&2
  exit 1
fi
rm -f "$log"
