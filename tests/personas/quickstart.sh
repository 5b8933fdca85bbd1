#!/usr/bin/env bash
# A newcomer's first minutes: the quickstart of the packages, and once more as in
# the sources, with a build that only says what one says. The second run measures
# nothing again and leaves the daemons, whose page is then there.
#
#   quickstart.sh ROOT
source "$(dirname "$0")/common.sh" "$1"
export XDG_STATE_HOME=$tmp/state
quickstart=$root/usr/share/ucudnn/quickstart/quickstart.sh

bash "$quickstart" >"$tmp/first" 2>"$tmp/first.log" || fail "the quickstart fails"
for words in "stage1.1.a" "plan 1 of coordinator" "even     step" "alone    step" \
  "s after the programs were there" "Run again with --keep"; do
  grep -qF -- "$words" "$tmp/first" || fail "the quickstart does not say '$words'"
done
grep -q measured "$tmp/first.log" || fail "nothing was measured"

# Sources whose build takes no time, or fails as the file says.
sources=$tmp/sources
mkdir -p "$sources/deploy" "$tmp/bin"
cp "$quickstart" "$(dirname "$quickstart")/resnet20_cifar.onnx" "$sources/deploy"
touch "$sources/CMakePresets.json"
echo true >"$sources/deploy/install-packages.sh"
ln -s "$XDG_STATE_HOME/ucudnn-quickstart" "$sources/.quickstart"
cat >"$tmp/bin/cmake" <<'CMAKE'
#!/bin/sh
[ "$1" = --build ] || exit 0
for step in 1 2 3; do echo "[$step/3] Building CXX object noise.cc.o"; done
echo "FAILED: noise.cc.o" >&2
[ ! -e fails ]
CMAKE
chmod +x "$tmp/bin/cmake"

# A terminal sees one line that counts, and why a build failed.
touch "$sources/fails"
built() { PATH=$tmp/bin:$PATH bash "$sources/deploy/quickstart.sh" "$@"; }
export -f built
export tmp sources
if SHELL=/bin/bash script -qec built "$tmp/typescript" >/dev/null </dev/null; then
  fail "a build that fails is used"
fi
counted=$(tr '\r' '\n' <"$tmp/typescript" | grep -c 'built [123] of 3 steps$' || true)
[ "$counted" -ge 3 ] || fail "the steps are not counted: $(cat "$tmp/typescript")"
grep -q "its output is in $sources/.quickstart/build.log" "$tmp/typescript" ||
  fail "nothing tells where the build's output is"
rm "$sources/fails"

built --keep >"$tmp/second" 2>"$tmp/second.log" || fail "the second run fails"
grep -qx "built in 3 of 3 steps" "$tmp/second" || fail "no word of the build"
! grep -q noise "$tmp/second" "$tmp/second.log" || fail "the build is not quiet"
read -ra kept <"$XDG_STATE_HOME/ucudnn-quickstart/pids"
daemons+=("${kept[@]}")
page=$(tail -n 1 "$tmp/second" | tr -d ' ')
says "<html" curl -sf "$page"
# It only finds that all is measured.
[ "$(grep -c " measured" "$tmp/second.log")" -le 1 ] || fail "the second run measures again"
says "usage" bash "$quickstart" --fast
sed -n 's/^== \(Done.*\)/\1/p' "$tmp/first"
echo "ok quickstart"
