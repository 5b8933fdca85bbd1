#!/usr/bin/env bash
# Builds the Debian packages and installs them with dpkg into an empty root,
# which it leaves for the tests of tests/personas; checks them with lintian, the
# units with systemd-analyze, and that purging leaves nothing.
#
#   packages_test.sh BUILD_FOLDER      works in BUILD_FOLDER/installed
set -euo pipefail
export LC_ALL=C.UTF-8
build=$1
work=$build/installed
root=$work/root
mkdir -p "$work"
rm -rf "$root" "$work/debs"

fail() {
  echo "packages_test: $*" >&2
  exit 1
}

# Compressing less takes a tenth of the time.
cpack --config "$build/CPackConfig.cmake" -B "$work/debs" \
  -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip >"$work/cpack.log" 2>&1 ||
  { cat "$work/cpack.log"; fail "cpack fails"; }
mapfile -t debs < <(find "$work/debs" -maxdepth 1 -name '*.deb' | sort)
names=$(for deb in "${debs[@]}"; do dpkg-deb -f "$deb" Package; done | xargs)
[ "$names" = "libucudnn-dev libucudnn0 python3-ucudnn ucudnn-agent ucudnn-coord ucudnn-glpk ucudnn" ] ||
  fail "the packages are: $names"

# There is no public mail address, and no upload to Debian that closes a bug.
unsuitable=bogus-mail-host,bogus-mail-host-in-debian-changelog
unsuitable+=,initial-upload-closes-no-bugs
lintian --fail-on error,warning --tag-display-limit 0 --allow-root \
  --suppress-tags "$unsuitable" "${debs[@]}" || fail "lintian complains"

# dpkg in an empty root: the packages' scripts run outside of it (DPKG_ROOT),
# and what they depend on is this machine's.
dpkg_in_root() {
  dpkg --root="$root" --force-depends --force-script-chrootless \
    --force-not-root --log=/dev/null "$@" >"$work/dpkg.log" 2>&1 ||
    { cat "$work/dpkg.log"; fail "dpkg $1 fails"; }
}
install_all() {
  mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root/etc"
  touch "$root"/var/lib/dpkg/{status,available}
  dpkg_in_root --install "${debs[@]}"
}
install_all
states=$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Status}\n')
[ "$(sort -u <<<"$states")" = "install ok installed" ] || fail "$states"
grep -q '^ucudnn:' "$root/etc/passwd" || fail "there is no user ucudnn"
grep -q '^ucudnn-agent:' "$root/etc/passwd" || fail "no user ucudnn-agent"
for unit in ucudnn-coord ucudnn-agent; do
  [ -L "$root/etc/systemd/system/multi-user.target.wants/$unit.service" ] ||
    fail "$unit.service is not enabled"
done

# The units: no mistake, and no more rights than these exposures (of 10).
mkdir "$root/bin"
cp /bin/kill "$root/bin/kill"
systemd-analyze verify --man=no --root="$root" --recursive-errors=no \
  ucudnn-coord.service ucudnn-agent.service || fail "a unit has mistakes"
rm -r "$root/bin"
exposed() {
  systemd-analyze security --offline=true --root="$root" --threshold="$2" \
    "$1.service" >"$work/security.log" || {
    cat "$work/security.log"
    fail "$1.service is exposed more than $2 tenths"
  }
}
exposed ucudnn-coord 15
exposed ucudnn-agent 20

# What an administrator changed survives an update, and purging leaves nothing.
echo 'log-level = "warn"' >>"$root/etc/ucudnn/agent.toml"
dpkg_in_root --install "${debs[@]}"
grep -q warn "$root/etc/ucudnn/agent.toml" || fail "an update loses settings"
mkdir -p "$root/var/lib/ucudnn"
touch "$root/etc/ucudnn/ca.crt"
mapfile -t packages < <(tr ' ' '\n' <<<"$names")
dpkg_in_root --purge "${packages[@]}"
grep -q "ucudnn-coord: /etc/ucudnn stays" "$work/dpkg.log" ||
  fail "purging does not say what stays"
rm -r "$root/etc/ucudnn"
left=$(find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print \
  -o -type l -print -o -name '*ucudnn*' -print |
  grep -v -e /etc/passwd -e /etc/group -e /etc/shadow -e /etc/gshadow \
    -e /etc/.pwd.lock || true)
[ -z "$left" ] || fail "purging leaves $left"

rm -rf "$root"
install_all
du -b "${debs[@]}" | sed "s|$work/debs/||"
