"""One rank of test_torch_session.py: python torch_session_ranks.py NETWORK.csv"""

import json
import sys
import tempfile

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.nn.parallel import DistributedDataParallel

import ucudnn
import ucudnn.torch

comm = MPI.COMM_WORLD
folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
dist.init_process_group(
    "gloo", init_method=f"file://{folder}/rendezvous", rank=comm.rank,
    world_size=comm.size,
)  # fmt: skip
told = {}
with ucudnn.Session(
    comm, network_file=sys.argv[1], batch=5, device="cpu:1", coordinators=""
) as session:
    shares = ucudnn.torch.share(5, session=session)
    try:
        ucudnn.torch.share(6, session=session)
    except ucudnn.InvalidArgument as error:
        told["other"] = str(error)
    model = torch.nn.Linear(1, 1, bias=False)
    ddp = shares.attach(DistributedDataParallel(model))
    ddp(torch.full((shares.batch, 1), 1.0 + shares.rank)).mean().backward()
    shares.report()
    told.update(
        batches=shares.batches,
        first_image=shares.first_image,
        reasons=shares.reasons,
        gradient=model.weight.grad.item(),
        changed=shares.refresh(),
    )
everything = comm.gather(told)
if comm.rank == 0:
    print(json.dumps(everything))
dist.destroy_process_group()
