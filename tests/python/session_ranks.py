"""One rank of test_session.py: python session_ranks.py NETWORK.csv"""

import array
import json
import sys

from mpi4py import MPI

import ucudnn



class Announced:
    """Memory that looks like a GPU array."""

    def __init__(self, values, form):
        self.values = values
        address, count = values.buffer_info()
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (address, False),
            "typestr": form,
            "shape": (1, count),
            "strides": None,
            "stream": None,
        }


comm = MPI.COMM_WORLD
try:
    ucudnn.Session(comm, batch="none")
except ucudnn.InvalidArgument as error:
    refused = str(error)
for named_wrongly in ({}, {"network_file": sys.argv[1], "plan_file": "/none.json"}):
    try:
        ucudnn.Session(comm, batch=5, device="cpu:1", coordinators="", **named_wrongly)
    except ucudnn.InvalidArgument as error:
        refused += "\n" + str(error)
with ucudnn.Session(
    comm,
    network_file=sys.argv[1],
    batch=5,
    device="cpu:1",
    coordinators="",
    memory_budget="1GiB,64MiB",
    momentum=1,
) as session:
    # Only coordinators make memory plans.
    within_memory = [session.source, session.batch, session.memory_plan]
    memory = session.plan["request"]["memory"]
with ucudnn.Session(
    comm, network_file=sys.argv[1], batch=5, device="cpu:1", coordinators=""
) as session:
    report = {
        "rank": session.rank,
        "size": session.size,
        "batch": session.batch,
        "first_image": session.first_image,
        "weight": session.weight,
        "source": session.source,
        "reason": session.reason,
        "shown": repr(session),
        "device_kind": session.device_kind,
        "kernels": len(session.plan["ranks"][session.rank]["workspace"]["kernels"]),
        "refused": refused,
        "within_memory": within_memory,
        "memory": memory,
    }
    report["memory_plan"] = session.memory_plan
    gradients = array.array("f", [1.0 + session.rank, 2.0])
    session.allreduce(gradients)
    report["gradients"] = list(gradients)
    announced = Announced(array.array("d", [3.0 + session.rank, 5.0]), "<f8")
    session.allreduce(announced)
    report["announced"] = list(announced.values)
    try:
        session.allreduce(Announced(array.array("i", [1]), "<i4"))
    except ucudnn.InvalidArgument as error:
        report["integers_on_gpu"] = str(error)
    # Only rank 1's gradients have an unsupported type.
    try:
        session.allreduce(array.array("f" if session.rank == 0 else "i", [1]))
    except ucudnn.InvalidArgument as error:
        report["unlike"] = str(error)
    session.report_step(1.5)
    report["changed"] = session.refresh()
    try:
        session.allreduce(array.array("i", [1]))
    except ucudnn.InvalidArgument as error:
        report["integers"] = str(error)
try:
    session.batch
except ucudnn.Error as error:
    report["after"] = str(error)
everything = comm.gather(report)
if comm.rank == 0:
    print(json.dumps(everything))
