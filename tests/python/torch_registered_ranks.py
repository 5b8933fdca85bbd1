"""One of the two ranks of test_torch_registered.py (torch_rank.py)."""

import contextlib
import socket
import time
import warnings
from dataclasses import replace
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ucudnn
import ucudnn.torch
from ucudnn.torch.devices import find_device
from ucudnn.torch.parallel import sharing

from daemons import coordinator, running, wait_for
from torch_rank import (
    BATCH,
    FOLDER,
    KIND,
    RANK,
    TIMES,
    alone,
    descend,
    difference,
    images,
    loss_of,
    network,
    run,
)

QUICK = ("--job-timeout-ms", 4000, "--report-after-ms", 100)


@contextlib.contextmanager
def cluster_of(name, *options):
    """A coordinator that rank 0 runs, and the client of it on each rank."""
    with contextlib.ExitStack() as stack:
        daemon = None
        address = [None]
        if RANK == 0:
            (FOLDER / name).mkdir()
            daemon = stack.enter_context(coordinator(FOLDER / name, *options))
            address = [daemon.rest]
        dist.broadcast_object_list(address)
        yield ucudnn.connect(address[0]), daemon
        dist.barrier()


def shared(cluster, idle=False, gpu=""):
    own = replace(find_device(None, KIND), gpu=gpu)
    with mock.patch.object(sharing, "find_device", lambda *_: own):
        return ucudnn.torch.share(
            BATCH, times=TIMES, idle=idle, coordinator=f"{cluster._rest!r}", name="net"
        )


def refreshed(shares, step=lambda: None):
    """Goes on until the shares change, or fails on both ranks."""
    deadline = time.monotonic() + 60
    while not shares.refresh():
        assert shares._ranks.from_first(lambda: time.monotonic() < deadline)
        step()
        time.sleep(0.05)


def known(cluster, shares, condition):
    """The job as the coordinator has it, once the condition holds."""
    deadline = time.monotonic() + 60
    while True:
        job = cluster.job(shares._source._job.id)
        if condition(job) or time.monotonic() > deadline:
            return job
        time.sleep(0.05)


def counts(job, revision=1):
    return [
        sum(steps.count for steps in rank.steps if steps.revision == revision)
        for rank in job.ranks
    ]


def train(shares, dataset, ddp=None):
    """An epoch, as a user would; the number of images of each step."""
    ddp = ddp or shares.attach(DistributedDataParallel(network()))
    optimizer = descend(ddp)
    loader = shares.loader(dataset, shuffle=False)
    sizes = []
    for x, y in loader:
        sizes.append(len(x))
        optimizer.zero_grad()
        loss_of(ddp, x, y).backward()
        optimizer.step()
        shares.report()
    return ddp, sizes


def registers_reports_and_finishes():
    with cluster_of("plain", *QUICK) as (cluster, _):
        shares = shared(cluster)
        ddp, sizes = train(shares, images(5))
        job = known(cluster, shares, lambda job: counts(job) == [5, 5])
        dist.barrier()
        shares.finish()
        dist.barrier()
        ended = known(cluster, shares, lambda job: job.state == "finished")
        return {
            "counts": counts(job),
            "hosts": [rank.host == socket.gethostname() for rank in job.ranks],
            "kinds": [rank.device_kind for rank in job.ranks],
            "plan": job.plan_id,
            "running": job.state,
            "ended": ended.state,
            "sizes": sizes,
            "difference": difference(ddp.parameters(), alone(images(5))),
        }


def adopts_a_revision_at_an_epochs_end():
    """Because steps drift. One loader and one refresh() an epoch, as a user would."""
    with cluster_of("drift", *QUICK) as (cluster, _):
        shares = shared(cluster)
        dataset = images(10)
        seen = []
        noted = Noted(dataset, seen)
        ddp = shares.attach(DistributedDataParallel(network()))
        optimizer = descend(ddp)
        loader = shares.loader(noted, seed=3)
        epochs = []
        deadline = time.monotonic() + 60
        changed_after = None
        while changed_after is None or len(epochs) < changed_after + 2:
            assert shares._ranks.from_first(lambda: time.monotonic() < deadline)
            loader.set_epoch(len(epochs))
            seen.clear()
            sizes = []
            for x, y in loader:
                sizes.append(len(x))
                optimizer.zero_grad()
                loss_of(ddp, x, y).backward()
                optimizer.step()
                slow = RANK == 1 and len(epochs) > 2
                shares.report(14.0 if slow else 6.0)
            epochs.append(sizes)
            every = sorted(sum(shares._ranks.gather(list(seen)), []))
            assert every == list(range(len(dataset)))
            if shares.refresh() and changed_after is None:
                changed_after = len(epochs)
        job = known(cluster, shares, lambda job: counts(job, 2) == [20, 20])
        dist.barrier()
        return {
            "before": epochs[:changed_after],
            "after": epochs[changed_after:],
            "batches": shares.batches,
            "revision": job.revision,
            "counts": counts(job, 2),
            "reasons": shares.reasons,
            "put": [kind.steps[0].time_us for kind in cluster.step("net").kinds],
            "alike": difference(ddp.parameters(), trained(dataset, len(epochs))),
        }


class Noted(torch.utils.data.Dataset):
    """Notes which images are read."""

    def __init__(self, images, seen):
        self.images, self.seen = images, seen

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        self.seen.append(index)
        return self.images[index]


def trained(dataset, epochs):
    """The weights that one process gets from the epochs' whole mini-batches."""
    model = network()
    for epoch in range(epochs):
        generator = torch.Generator().manual_seed(3 + epoch)
        order = torch.randperm(len(dataset), generator=generator).tolist()
        alone(torch.utils.data.Subset(dataset, order), model=model)
    return model.parameters()


@contextlib.contextmanager
def node_of_rank_1(daemon, cluster):
    """An agent; its device is that of rank 1 alone."""
    socket.gethostname, host = lambda: f"host-{RANK}", socket.gethostname
    try:
        with contextlib.ExitStack() as stack:
            if RANK == 0:
                agent = stack.enter_context(
                    running(
                        "ucudnn-agent", "--coordinator", daemon.grpc, "--id", "node",
                        "--cpu-devices", 1, "--cpu-threads", 1,
                    )  # fmt: skip
                )
                wait_for(cluster.devices, agent)
            dist.barrier()
            yield cluster.devices()[0].id if RANK == 1 else ""
            dist.barrier()
    finally:
        socket.gethostname = host


def refuses_to_leave_a_drained_rank_out():
    with cluster_of("refused", *QUICK) as (cluster, daemon):
        with node_of_rank_1(daemon, cluster) as gpu:
            shares = shared(cluster, gpu=gpu)
            if RANK == 0:
                daemon.command("drain", "node", "--reason", "test")
            deadline = time.monotonic() + 60
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                while not shares._ranks.gather(bool(warned))[0]:
                    assert shares._ranks.from_first(
                        lambda: time.monotonic() < deadline
                    )
                    assert not shares.refresh()
                    time.sleep(0.05)
            _, sizes = train(shares, images(2))
            job = known(cluster, shares, lambda job: job.revisions[1].rejected)
            dist.barrier()
            return {
                "warned": [str(warning.message) for warning in warned],
                "rejected": job.revisions[1].rejected,
                "revision": job.revision,
                "sizes": sizes,
            }


def leaves_a_drained_rank_without_images():
    with cluster_of("drained", *QUICK) as (cluster, daemon):
        with node_of_rank_1(daemon, cluster) as gpu:
            shares = shared(cluster, idle=True, gpu=gpu)
            ddp = shares.attach(DistributedDataParallel(network()))
            if RANK == 0:
                daemon.command("drain", "node", "--reason", "test")
            refreshed(shares)
            drained = shares.batches
            _, sizes = train(shares, images(3), ddp=ddp)
            if RANK == 0:
                daemon.command("resume", "node")
            refreshed(shares)
            return {
                "drained": drained,
                "sizes": sizes,
                "resumed": shares.batches,
                "difference": difference(ddp.parameters(), alone(images(3))),
            }


def goes_on_without_a_rank_that_is_silent():
    with cluster_of("lost", *QUICK) as (cluster, _):
        shares = shared(cluster, idle=True)
        job = shares._source._job
        known(cluster, shares, lambda job: all(counts(job)) or shares.report(1.0))
        dist.barrier()
        exchange = job.exchange
        if RANK == 1:
            job.exchange = lambda *_: False
        refreshed(shares)
        lost, why = shares.batches, shares.reasons[0]
        job.exchange = exchange
        refreshed(shares)
        return {"lost": lost, "why": why, "back": shares.batches}


def trains_on_while_the_coordinator_is_killed():
    with cluster_of("killed", *QUICK) as (cluster, daemon):
        shares = shared(cluster)
        ddp, _ = train(shares, images(4))
        acknowledged = counts(
            known(cluster, shares, lambda job: counts(job) == [4, 4])
        )
        dist.barrier()
        if RANK == 0:
            daemon.kill()
        dist.barrier()
        _, sizes = train(shares, images(6), ddp=ddp)
        changed = shares.refresh()
        with contextlib.ExitStack() as stack:
            if RANK == 0:
                stack.enter_context(
                    coordinator(FOLDER / "killed", *QUICK, http=daemon.rest)
                )
            dist.barrier()
            job = known(cluster, shares, lambda job: counts(job) == [10, 10])
            dist.barrier()
            shares.finish()
            dist.barrier()
            return {
                "acknowledged": acknowledged,
                "sizes": len(sizes),
                "changed": changed,
                "counts": counts(job),
                "ended": cluster.job(job.id).state,
            }


def ends_without_a_coordinator():
    with cluster_of("gone") as (cluster, daemon):
        shares = shared(cluster)
        train(shares, images(2))
        if RANK == 0:
            daemon.kill()
        dist.barrier()
        shares.finish()
        return shares._source._job.problem


if __name__ == "__main__":
    torch.manual_seed(1)
    run(
        [
            registers_reports_and_finishes,
            adopts_a_revision_at_an_epochs_end,
            refuses_to_leave_a_drained_rank_out,
            leaves_a_drained_rank_without_images,
            goes_on_without_a_rank_that_is_silent,
            trains_on_while_the_coordinator_is_killed,
            ends_without_a_coordinator,
        ]
    )
