#!/usr/bin/env bash
# Links between hosts are cut for a minute, with the daemons' default settings:
#
#   bash tests/integration/hosts/minute.sh [SECONDS]
#
# from the repository's root, with a build in build/ci. Takes some minutes for
# each fault.
set -euo pipefail
export UCUDNN_CUT_SECONDS="${1:-60}"
uptime
time "${UCUDNN_BUILD:-build/ci}/tests/integration/hosts/hosts_tests"
