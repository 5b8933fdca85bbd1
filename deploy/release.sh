#!/usr/bin/env bash
# Makes a release of the last commit: Debian packages, the wheel, the site of
# docs/, an SPDX list of what is inside, and SHA256SUMS; each is installed and
# tried where nothing else is. As root, on a Debian machine with debootstrap:
#
#   bash deploy/release.sh VERSION [--out DIR] [--before DIR] [--ccache DIR]
#
#   --out     what is released; default: build/release-VERSION. DIR.work has the
#             chroots, and a log of each stage. If a stage fails, the next call
#             goes on with it; remove DIR.work to begin anew
#   --before  the packages of the release before, from which to upgrade. Without,
#             there is none, and the release upgrades itself
#   --ccache  a cache of compiled files; a release for others is made without
#
# Stages, each in a fresh Debian 12 of its own: build; install (the packages, and
# the personas that need nothing else: tests/run.sh tries the others); wheel;
# upgrade (with a database that the release before filled). Debian's mirrors are
# this machine's (apt), or those of UCUDNN_DEBIAN_SOURCES, lines of a
# sources.list of which the first is the main one. The chroots have this machine's
# authorities and names, and its variables PIP_*, NPM_CONFIG_* and NODE_*.
set -euo pipefail
source_tree=$(cd "$(dirname "$0")/.." && pwd)

fail() {
  echo "release.sh: $*" >&2
  exit 1
}
[ $# -gt 0 ] || fail "its head tells how it is called"
version=$1 out='' before='' ccache=''
shift
while [ $# -gt 1 ]; do
  case $1 in
    --out) out=$2 ;;
    --before) before=$(realpath "$2") ;;
    --ccache) ccache=$(realpath "$2") ;;
    *) fail "there is no option $1" ;;
  esac
  shift 2
done
[ $# -eq 0 ] || fail "$1 needs a value"
grep -q "^project(ucudnn VERSION $version " "$source_tree/CMakeLists.txt" ||
  fail "the sources are not of version '$version' (CMakeLists.txt)"
grep -q "^__version__ = \"$version\"" "$source_tree/client/python/ucudnn/__init__.py" ||
  fail "client/python is not of version '$version'"
grep -q "^## $version\b" "$source_tree/CHANGELOG.md" ||
  fail "CHANGELOG.md says nothing of $version"
[ "$(id -u)" = 0 ] || fail "chroots need root"
command -v debootstrap >/dev/null || fail "debootstrap is missing"
out=$(realpath -m "${out:-$source_tree/build/release-$version}")
work=$out.work
mkdir -p "$out" "$work"
sources=${UCUDNN_DEBIAN_SOURCES:-$(apt-get indextargets \
  --format '$(ORIGIN):deb $(SITE) $(RELEASE) $(COMPONENT)' | sed -n 's/^Debian://p' |
  grep bookworm | sort -u)}
mapfile -t variables < <(env | grep -E '^(PIP|NPM_CONFIG|NODE)_' || true)
if [ -n "$ccache" ]; then
  variables+=(CCACHE_DIR=/ccache CCACHE_BASEDIR=/src)
else
  variables+=(CCACHE_DISABLE=1)
fi

# in_chroot NAME COMMAND...: as on a machine of its own; mounts end with it.
in_chroot() {
  local root=$work/$1
  shift
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child sh -ec '
    root=$1 ccache=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    if [ -n "$ccache" ]; then
      mkdir -p "$root/ccache"
      mount --bind "$ccache" "$root/ccache"
    fi
    exec chroot "$root" "$@"' - "$root" "$ccache" \
    env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin "${variables[@]}" "$@"
}

# fresh NAME PACKAGE...: a new chroot with these packages.
fresh() {
  rm -rf --one-file-system "${work:?}/$1"
  cp -a --reflink=auto "$work/base" "$work/$1"
  in_chroot "$1" apt-get update -q
  in_chroot "$1" apt-get install -q -y --no-install-recommends ca-certificates "${@:2}"
  cp -L /etc/ssl/certs/ca-certificates.crt "$work/$1/etc/ssl/certs"
}

make_base() {
  local main
  main=$(head -n 1 <<<"$sources" | cut -d' ' -f2)
  rm -rf --one-file-system "${work:?}/base"
  debootstrap --variant=minbase bookworm "$work/base" "$main"
  echo "$sources" >"$work/base/etc/apt/sources.list"
  cp /etc/resolv.conf "$work/base/etc"
  echo "127.0.0.1 localhost" >"$work/base/etc/hosts"
  # A chroot that a crash damages is made again.
  echo force-unsafe-io >"$work/base/etc/dpkg/dpkg.cfg.d/unsafe-io"
  printf '#!/bin/sh\nexit 101\n' >"$work/base/usr/sbin/policy-rc.d"
  chmod +x "$work/base/usr/sbin/policy-rc.d"
}

make_build() {
  fresh build git python3-venv help2man dpkg-dev file
  rm -rf "$work/clone"
  git clone -q --no-local "$source_tree" "$work/clone"
  mv "$work/clone" "$work/build/src"
  in_chroot build bash -exc '
    cd /src
    git config --global --add safe.directory /src
    bash deploy/install-packages.sh
    cmake --preset package
    cmake --build --preset package
    cpack --preset package
    bash deploy/wheel.sh
    python3 -m venv build/site-tools
    build/site-tools/bin/pip install -q "$(grep ^mkdocs-material tests/python/requirements.txt)"
    build/site-tools/bin/python tests/docs/check_site.py . build/site
    mkdir build/release-files
    cp build/packages/*.deb build/wheel/*.whl build/release-files
    tar -C build -czf "build/release-files/ucudnn-docs-$1.tar.gz" site
    git archive --prefix "ucudnn-$1/" -o "build/release-files/ucudnn-$1.tar.gz" HEAD
    python3 deploy/spdx.py "$1" build/package build/release-files' - "$version"
  rm -f "$out"/*
  cp "$work/build/src/build/release-files"/* "$out"
}

make_install() {
  fresh install curl man-db openssl procps python3 bsdutils bsdextrautils \
    bash-completion openmpi-bin sqlite3
  mkdir "$work/install/packages"
  cp "$out"/*.deb "$work/install/packages"
  in_chroot install sh -c 'apt-get install -q -y --no-install-recommends /packages/*.deb'
  cp -r "$work/build/src"/{deploy,tests} "$work/install"
  local persona
  for persona in newcomer quickstart operator administrator; do
    in_chroot install bash "/tests/personas/$persona.sh" /
  done
}

make_wheel() {
  fresh wheel python3-venv
  cp "$out"/*.whl "$work/build/src/tests/data/h200/alexnet_b256_pow2.csv" "$work/wheel/root"
  in_chroot wheel bash -exc '
    cd /root
    python3 -m venv venv
    venv/bin/pip install -q --no-index --no-deps ./*.whl
    venv/bin/python -c "
import ucudnn
plan = ucudnn.solve_wr(\"alexnet_b256_pow2.csv\", 256, \"64MiB\", precision=\"FP32\")
assert plan.optimal and plan.total_time_us < plan.undivided_time_us, plan
print(plan)"'
}

make_upgrade() {
  fresh upgrade curl openssl python3
  mkdir "$work/upgrade/before" "$work/upgrade/packages"
  cp "${before:-$out}"/*.deb "$work/upgrade/before"
  cp "$out"/*.deb "$work/upgrade/packages"
  cp "$work/build/src/tests/data/h200/alexnet_b256_pow2.csv" \
    "$work/build/src/tests/data/networks/alexnet_torchvision.csv" "$work/upgrade/root"
  [ -n "$before" ] || echo "There is no release before: $version upgrades itself"
  in_chroot upgrade bash -exc '
    cd /root
    kind="NVIDIA H200/132u/139GiB/cudnn-9.19"
    # serve COMMAND...: while the coordinator of the package runs, as it does.
    serve() {
      rm -f ready
      ucudnn-coord serve --config /etc/ucudnn/coordinator.toml --create \
        --ready-file "$PWD/ready" 2>>log &
      while ! [ -s ready ]; do
        kill -0 $! || { cat log; exit 1; }
        sleep 0.1
      done
      "$@"
      kill $!
      wait $!
    }
    fill() {
      ucudnn networks put alexnet alexnet_torchvision.csv
      ucudnn profiles import --network alexnet_torchvision.csv --kind "$kind" \
        --complete-up-to 1GiB alexnet_b256_pow2.csv
      ucudnn plan --network alexnet --batch 256 --device-kind "$kind" \
        --workspace-limit 64MiB
      tell before
    }
    tell() {
      { ucudnn networks -o json && ucudnn plans -o json && ucudnn show plan 1 -o json; } >"told-$1"
      ucudnn profiles export "exported-$1"
    }
    apt-get install -q -y --no-install-recommends ./../before/*.deb
    echo "log-level = \"warn\"" >>/etc/ucudnn/agent.toml
    mkdir /var/lib/ucudnn  # as its unit does
    serve fill
    apt-get install -q -y --no-install-recommends --reinstall -o Dpkg::Options::=--force-confold \
      ./../packages/*.deb
    grep warn /etc/ucudnn/agent.toml
    serve tell after
    cmp told-before told-after
    cmp exported-before exported-after
    [ -s exported-after ]
    apt-get purge -q -y ucudnn ucudnn-coord ucudnn-agent
    [ ! -e /var/lib/ucudnn ]'
}

make_sums() {
  (cd "$out" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
}

for stage in base build install wheel upgrade sums; do
  [ ! -e "$work/$stage.done" ] || continue
  echo "== $stage, after $SECONDS s"
  # Not as a condition, where the shell ignores errors within.
  set +e
  (set -e; "make_$stage") >"$work/$stage.log" 2>&1
  status=$?
  set -e
  [ $status -eq 0 ] || {
    tail -n 20 "$work/$stage.log" >&2
    fail "$stage fails; its output is in $work/$stage.log"
  }
  touch "$work/$stage.done"
done
cat "$work/sums.log"
echo "released into $out, after $SECONDS s"
