# Waits for conditions; the script that sources this has `fail WORDS`.

# await WHAT COMMAND...: until the command succeeds, at most a minute.
await() {
  local what=$1 until=$((SECONDS + 60))
  shift
  while [ $SECONDS -lt $until ]; do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  fail "$what: not within a minute"
}
