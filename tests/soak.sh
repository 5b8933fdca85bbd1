#!/usr/bin/env bash
# A cluster for hours: two coordinators over PostgreSQL, agents and jobs that are
# made up (tests/integration/history), and at random moments
#
#   kills       SIGKILL of one coordinator, of PostgreSQL, of a quarter of the
#               agents or of the jobs, or of who asks for plans
#   cut links   those of such clients to one coordinator or to both carry nothing
#               for 1 to 30 s, and then go on or break
#   slow disks  PostgreSQL's processes are stopped for 1 to 8 s, as by a disk
#               that answers nothing
#
#   bash tests/soak.sh [--hours 2] [--agents 200] [--jobs 20] [--seed N]
#                      [--build build/ci] --out DIR
#
# Writes DIR/soak.jsonl, with a row for each fault and every 10 s one for memory,
# descriptors and threads of each coordinator and what the database holds, and
# DIR/soak.svg, the curves. In the end nothing acknowledged may be lost, doubled
# or gone back (history_check), everyone must be served, and nothing may have
# grown without bound (`growths` in soak.py says how that is told). ^C ends it
# early with the same checks. Exit status: 0 if all is well, 1 if not.
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/soak.py" "$@"
