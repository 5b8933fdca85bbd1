#!/usr/bin/env bash
# A newcomer's first minutes: the quickstart of the packages, twice. The second
# run measures nothing again and leaves the daemons, whose page is then there.
#
#   quickstart.sh ROOT
source "$(dirname "$0")/common.sh" "$1"
export XDG_STATE_HOME=$tmp/state
quickstart=$root/usr/share/ucudnn/quickstart/quickstart.sh

bash "$quickstart" >"$tmp/first" 2>"$tmp/first.log" || fail "the quickstart fails"
for words in "layer1.1.conv1" "passed" "s after the programs were there" \
  "Run again with --keep"; do
  grep -qF -- "$words" "$tmp/first" || fail "the quickstart does not say '$words'"
done
grep -q measured "$tmp/first.log" || fail "nothing was measured"

bash "$quickstart" --keep >"$tmp/second" 2>"$tmp/second.log" || fail "the second run fails"
read -ra kept <"$XDG_STATE_HOME/ucudnn-quickstart/pids"
daemons+=("${kept[@]}")
page=$(tail -n 1 "$tmp/second" | tr -d ' ')
says "<html" curl -sf "$page"
# It only finds that all is measured.
[ "$(grep -c " measured" "$tmp/second.log")" -le 1 ] || fail "the second run measures again"
says "usage" bash "$quickstart" --fast
sed -n 's/^== \(Done.*\)/\1/p' "$tmp/first"
echo "ok quickstart"
