"""A job that reports steps and adopts new plans until there is FOLDER/stop;
FOLDER/rank1 tells the process of rank 1.

    train.py FOLDER NAME=VALUE...    options of the session; A|B: rank 1 has B
"""

import os
import sys
import time
from pathlib import Path

from mpi4py import MPI

import ucudnn

folder, comm = Path(sys.argv[1]), MPI.COMM_WORLD
options = {}
for option in sys.argv[2:]:
    name, values = option.split("=")
    options[name] = values.split("|")[comm.rank % (values.count("|") + 1)]
with ucudnn.Session(comm, batch=8, device="cpu:1", **options) as session:
    (folder / f"rank{comm.rank}").write_text(str(os.getpid()))
    while not comm.bcast((folder / "stop").exists()):
        time.sleep(0.05)
        session.report_step(50.0)
        session.refresh()
