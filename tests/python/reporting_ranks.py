"""One rank of test_session_tls.py: python reporting_ranks.py NETWORK.csv"""

import json
import os
import subprocess
import sys
import time

from mpi4py import MPI

import ucudnn


def reported(job):
    """How many steps of each rank the coordinator knows."""
    shown = subprocess.run(
        [os.environ["UCUDNN_BIN_DIR"] + "/ucudnn", "show", "job", job, "-o", "json"],
        capture_output=True, text=True,
    )  # fmt: skip
    if shown.returncode != 0:
        return shown.stderr
    ranks = json.loads(shown.stdout)["ranks"]
    return [sum(part["count"] for part in rank["steps"]) for rank in ranks]


comm = MPI.COMM_WORLD
with ucudnn.Session(
    comm, network_file=sys.argv[1], batch=4, device="cpu:1"
) as session:
    for _ in range(3):
        session.report_step(1.5)
    if comm.rank == 0:
        deadline = time.monotonic() + 60
        while (steps := reported(session.job_id)) != [3, 3]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        print(json.dumps({"reason": session.reason, "steps": steps}))
    comm.barrier()
