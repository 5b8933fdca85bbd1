#!/usr/bin/env bash
# A long history of kills: two coordinators over PostgreSQL, 1,000 SIGKILLs.
#
#   bash tests/integration/history/long.sh [KILLS [SEED]]
#
# from the repository's root, with a build in build/ci. Prints the seed and the
# verdict; keeps the history in build/history.jsonl if there is something wrong.
set -euo pipefail
export UCUDNN_TEST_SHAPE="${UCUDNN_TEST_SHAPE:-two}"
export UCUDNN_HISTORY_KILLS="${1:-1000}"
export UCUDNN_HISTORY_SEED="${2:-$RANDOM}"
export UCUDNN_HISTORY_FILE="$PWD/build/history.jsonl"
program="${UCUDNN_BUILD:-build/ci}/tests/integration/history/history_tests"
uptime
time "$program"
rm "$UCUDNN_HISTORY_FILE"
