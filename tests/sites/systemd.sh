#!/usr/bin/env bash
# The packages' units under systemd itself: PID 1 of namespaces of its own, over a
# copy-on-write view of this machine, which stays as it is. The packages are
# installed there with dpkg, which starts the daemons; they serve and measure in
# their sandboxes, reload, come back after they were killed and after they hung,
# stop in time, and go with their packages.
#
#   systemd.sh DEBS    the folder of the packages, which packages_test leaves in
#                      build/ci/installed/debs
#
# Needs the package systemd. Without root, cgroup2 or the right to mount it says
# so and exits with status 77.
set -euo pipefail
export LC_ALL=C.UTF-8
debs=$(cd "$1" && pwd)
skip() {
  echo "systemd.sh: not run: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "it needs root"
[ -x /lib/systemd/systemd ] || { echo "systemd.sh: there is no systemd"; exit 1; }
cgroups=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
[ -n "$cgroups" ] || skip "there is no cgroup2"
unshare -m sh -c 'mount -t tmpfs tmpfs /mnt' 2>/dev/null || skip "it may not mount"

tmp=$(mktemp -d)
cgroup=$cgroups/ucudnn-test-$$
init=""
end() {
  [ -z "$init" ] || kill -9 "$init" 2>/dev/null || true
  wait 2>/dev/null || true
  find "$cgroup" -depth -type d -exec rmdir {} \; 2>/dev/null || true
  rm -rf "$tmp"
}
trap end EXIT

# What runs as PID 1 of the new namespaces: prepares the view and becomes systemd.
boot() {
  set -e
  mount -t tmpfs tmpfs "$1"
  mkdir "$1"/{changes,work,root}
  mount -t overlay overlay \
    -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" "$1/root"
  cd "$1/root"
  mount -t proc proc proc
  mount -t sysfs sysfs sys
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  mount -t tmpfs tmpfs run
  mount --rbind /dev dev
  mkdir -p run/debs old
  mount --bind "$2" run/debs
  # These would change the machine's kernel, which is not this view's.
  for unit in binfmt modules-load remount-fs sysctl update-utmp; do
    ln -sf /dev/null "etc/systemd/system/systemd-$unit.service"
  done
  rm -f usr/sbin/policy-rc.d
  pivot_root . old
  mount -t tmpfs tmpfs /tmp
  umount -l /old
  exec env -i container=ucudnn-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=basic.target --log-target=journal --show-status=0
}
mkdir "$cgroup"
export -f boot
(
  echo $BASHPID >"$cgroup/cgroup.procs"
  exec unshare --mount --propagation private --pid --fork --cgroup --uts --ipc \
    --net bash -c "boot $tmp $debs"
) </dev/null >"$tmp.log" 2>&1 &
unshared=$!

fail() {
  echo "systemd.sh: $*" >&2
  [ -z "$init" ] || inside journalctl --no-pager -q -n 30 >&2 || true
  exit 1
}
source "$(dirname "$0")/../support/await.sh"
inside() { nsenter -t "$init" -m -p -C -u -i -n -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }
forked() { init=$(pgrep -P "$unshared") && [ "$(cat "/proc/$init/comm")" = systemd ]; }
await "systemd starts" forked
rm -f "$tmp.log"
up() { inside systemctl is-system-running | grep -q running; }
await "systemd runs" up

# dpkg starts what it installs, and Type=notify has it wait until they are ready.
inside sh -c 'dpkg -i /run/debs/*.deb' >"$tmp/dpkg.log" 2>&1 ||
  { cat "$tmp/dpkg.log" >&2; fail "dpkg -i fails"; }
daemons=(ucudnn-coord ucudnn-agent)
inside systemctl is-active -q "${daemons[@]}" || fail "the daemons do not run"
property() { inside systemctl show -P "$2" "$1"; }
for unit in "${daemons[@]}"; do
  [ "$(property $unit NRestarts)" = 0 ] || fail "$unit was restarted"
  status=$(inside cat "/proc/$(property $unit MainPID)/status")
  for line in 'CapEff:.0000000000000000' 'NoNewPrivs:.1' 'Seccomp:.2'; do
    grep -q "$line" <<<"$status" || fail "$unit: no $line in $status"
  done
done
user() { inside ps -o user:20= -p "$(property "$1" MainPID)"; }
[ "$(user ucudnn-coord)" = ucudnn ] || fail "the coordinator is $(user ucudnn-coord)"
[ "$(user ucudnn-agent)" = ucudnn-agent ] || fail "the agent is $(user ucudnn-agent)"

# In their sandboxes they measure and plan.
online() { inside ucudnn devices -o 'jsonpath={[*].state}' | grep -q idle; }
await "a device is online" online
inside sh -c 'cat >/tmp/small.csv && ucudnn networks put small /tmp/small.csv' <<'CSV'
name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups
conv1,3,16,16,8,3,3,1,1,1,1,1
CSV
plan=(inside ucudnn plan --network small --batch 2 --workspace-limit 1MiB)
"${plan[@]}" >/dev/null 2>"$tmp/plan.log" || fail "no plan: $(cat "$tmp/plan.log")"
[ "$(inside stat -c '%U %a' /var/lib/ucudnn)" = "ucudnn 750" ] || fail "the state is open"

said() { inside journalctl --no-pager -q -u "$1" --grep "$2" >/dev/null; }
inside systemctl reload ucudnn-coord
await "the reload is logged" said ucudnn-coord event=reloaded

# Killed, they come back with what was stored.
restarted() { [ "$(property "$1" NRestarts)" = "$2" ] && inside systemctl is-active -q "$1"; }
for unit in "${daemons[@]}"; do
  inside systemctl kill -s KILL --kill-who=main $unit
  await "$unit is started again" restarted $unit 1
done
inside ucudnn show plan 1 | grep -q conv1 || fail "the plan is lost"

# Hung, the watchdog ends them: within a test's time, one after the other, since the
# agent's heartbeat waits longer than that for a coordinator that hangs.
for unit in "${daemons[@]}"; do
  inside mkdir -p /run/systemd/system/$unit.service.d
  inside sh -c "printf '[Service]\nWatchdogSec=5\nTimeoutAbortSec=1\n' \
    >/run/systemd/system/$unit.service.d/watchdog.conf"
  inside systemctl daemon-reload
  inside systemctl restart $unit
  inside systemctl kill -s STOP --kill-who=main $unit
  await "$unit is started again by the watchdog" restarted $unit 1
  said $unit "Watchdog timeout" || fail "$unit: no word of the watchdog"
done
await "the agent comes back" online

inside systemctl stop "${daemons[@]}"
for unit in "${daemons[@]}"; do
  [ "$(property $unit Result)" = success ] || fail "$unit ends with $(property $unit Result)"
done
inside systemctl start "${daemons[@]}"
inside dpkg --purge ucudnn-coord ucudnn-agent >"$tmp/dpkg.log" 2>&1 ||
  { cat "$tmp/dpkg.log" >&2; fail "dpkg --purge fails"; }
for unit in "${daemons[@]}"; do
  ! inside systemctl is-active -q $unit || fail "$unit outlives its package"
done
inside test ! -e /var/lib/ucudnn || fail "purging leaves the database"
echo "ok systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p'), after $SECONDS s"
