"""HiGHS through scipy, as a server of integer programmes.

Reads one JSON object a line (tests/support/highs_ilp.cc writes them), answers
with one: the status of scipy.optimize.milp, the values and the seconds that
the call took. Exits with status 3 if scipy is missing.
"""

import json
import sys
import time

try:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)


def solve(problem):
    rows = len(problem["row_least"])
    matrix = csr_array(
        (problem["value"], problem["index"], problem["start"]),
        shape=(rows, len(problem["cost"])),
    )
    options = {"mip_rel_gap": 0}
    if problem["time_limit"] > 0:
        options["time_limit"] = problem["time_limit"]
    constraints = LinearConstraint(
        matrix, problem["row_least"], problem["row_most"]
    )
    start = time.perf_counter()
    result = milp(
        problem["cost"],
        integrality=problem["integer"],
        bounds=Bounds(problem["least"], problem["most"]),
        constraints=constraints,
        options=options,
    )
    seconds = time.perf_counter() - start
    values = [] if result.x is None else result.x.tolist()
    return {"status": result.status, "values": values, "seconds": seconds}


print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    print(json.dumps(solve(json.loads(line))), flush=True)
