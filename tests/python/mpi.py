"""Ranks of MPI for tests."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def run_ranks(script, *arguments, folder, variables=None):
    """Returns what rank 0 of two prints as JSON.

    Each runs tests/python/SCRIPT on the CPU in `folder`, without a coordinator
    unless `variables` of the environment name one.
    """
    with tempfile.TemporaryDirectory() as files:  # mpiruns share no folder
        environment = dict(
            os.environ,
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_orte_tmpdir_base=files,
            OMPI_MCA_rmaps_base_oversubscribe="1",
            OMPI_MCA_mpi_yield_when_idle="1",
            OMPI_MCA_hwloc_base_binding_policy="none",
            OMP_NUM_THREADS="1",
            UCUDNN_CACHE_DIR=str(folder / "cache"),
            UCUDNN_COORDINATOR="",
            CUDA_VISIBLE_DEVICES="",
        )
        environment.update(variables or {})
        ranks = Path(__file__).with_name(script)
        done = subprocess.run(
            ["mpirun", "-n", "2", sys.executable, str(ranks),
             *map(str, arguments)],
            env=environment, cwd=folder, capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
