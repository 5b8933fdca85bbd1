#!/usr/bin/env bash
# Checks the packages that deploy/install-packages.sh names, and that programs
# say what they miss, on a machine that has nothing installed, as a non-root user.
set -euo pipefail
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
  echo "dependencies_test: $*" >&2
  exit 1
}

for tool in bash dirname grep; do
  ln -s "$(command -v "$tool")" "$tmp/$tool"
done
printf '#!/bin/bash\nexit 1\n' >"$tmp/dpkg-query"
printf '#!/bin/bash\necho 1000\n' >"$tmp/id"
chmod +x "$tmp/dpkg-query" "$tmp/id"

# names FLAGS...: prints what it reports as missing.
names() {
  if PATH=$tmp bash deploy/install-packages.sh "$@" >"$tmp/out" 2>&1; then
    fail "'$*' succeeds though nothing is installed"
  fi
  cat "$tmp/out"
}

for package in patchelf binutils libgtest-dev libfmt-dev; do
  names --gpu | grep -qw -- "$package" || fail "--gpu does not name $package"
done
names --tests | grep -qw patchelf && fail "--tests names patchelf"
names | grep -qw libfmt-dev || fail "libfmt-dev is not named"
names | grep -qw npm || fail "npm is not named though there is none"
ln -s /bin/true "$tmp/npm"
names | grep -qw npm && fail "npm is named though there is one"
names --tests | grep -qw kubernetes-client ||
  fail "kubernetes-client is not named though there is no kubectl"
names | grep -qw libgtest-dev && fail "libgtest-dev is named without --tests"
names --nonsense | grep -q -- "'--nonsense' is unknown; --tests and --gpu" ||
  fail "an unknown flag is not refused"

if PATH=$tmp bash tests/gpu/run.sh pack >"$tmp/out" 2>&1; then
  fail "pack succeeds without patchelf"
fi
grep -q "patchelf is missing; run bash deploy/install-packages.sh --gpu" \
  "$tmp/out" || fail "pack says: $(cat "$tmp/out")"
