#!/usr/bin/env bash
# Writes man pages of programs and of each of their commands, by help2man, and
# the files with which bash, zsh and fish complete them.
#
#   documents.sh BIN_FOLDER SHARE_FOLDER PROGRAM...
set -euo pipefail
bin=$1 share=$2
shift 2
wrappers=$(mktemp -d)
trap 'rm -rf "$wrappers"' EXIT
rm -rf "$share"
mkdir -p "$share"/man/man1 "$share"/bash-completion/completions \
  "$share"/zsh/vendor-completions "$share"/fish/vendor_completions.d
version=$("$bin/$1" --version)

# page WORDS...: the page of a command, such as `ucudnn networks put`, and of
# its commands.
page() {
  local name help summary command
  name=$(tr ' ' '-' <<<"$*")
  # help2man runs one program, not a command of it.
  printf '#!/bin/sh\nexec "%s/%s" %s "$@"\n' "$bin" "$1" "${*:2}" \
    >"$wrappers/$name"
  chmod +x "$wrappers/$name"
  help=$("$wrappers/$name" --help)
  summary=$(sed '/^$/,$d; /^Usage:/,$d' <<<"$help" | tr '\n' ' ')
  summary=${summary% }
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)} help2man --no-info \
    --name="${summary%.}" --version-string="$name $version" \
    "$wrappers/$name" | gzip -9n >"$share/man/man1/$name.1.gz"
  for command in $(awk '/^[A-Z]/ {on = /ommands:$/}
                        on && /^  [a-z]/ {print $1}' <<<"$help"); do
    page "$@" "$command"
  done
}

for program in "$@"; do
  page "$program"
  "$bin/ucudnn" completion bash \
    >"$share/bash-completion/completions/$program"
  "$bin/ucudnn" completion zsh >"$share/zsh/vendor-completions/_$program"
  "$bin/ucudnn" completion fish \
    >"$share/fish/vendor_completions.d/$program.fish"
done
