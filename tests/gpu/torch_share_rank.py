"""One rank of torch_share.py: python torch_share_rank.py SECTION RANK FOLDER

Writes what it measured to FOLDER/RANK.json.
"""

import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import torch_share_checks
import ucudnn.torch

SLICES = (64, 16)  # multiprocessors
RANKS = 2
LAST_GRADIENT = {}  # "event": when the hook by hand saw it


class Job:
    """A network and its random images on this rank's GPU."""

    def __init__(self, network, precision, images):
        torch.manual_seed(1)
        self.half = precision == "bf16"
        self.device = torch.device("cuda", torch.cuda.current_device())
        layout = torch.channels_last if self.half else torch.contiguous_format
        self.model = getattr(torchvision.models, network)().to(
            self.device, memory_format=layout)
        self.images = torch.randn(
            images, 3, 224, 224, device=self.device).contiguous(
                memory_format=layout)
        self.labels = torch.randint(0, 1000, (images,), device=self.device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-3, momentum=0.9)

    def iterate(self, model, batch):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.half):
            loss = nn.functional.cross_entropy(
                model(self.images[:batch]), self.labels[:batch])
        loss.backward()
        self.optimizer.step()

    def step_ms(self, model, batch, warm_up=3, steps=10, own=None):
        """Each whole iteration's time, from the end of the one before. `own` gets
        the time from each one's beginning to its last gradient."""
        stream = torch.cuda.current_stream()
        for _ in range(warm_up):
            self.iterate(model, batch)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        events[0].record(stream)
        ready = []
        for event in events[1:]:
            self.iterate(model, batch)
            event.record(stream)
            ready.append(LAST_GRADIENT.get("event"))
        torch.cuda.synchronize()
        if own is not None:
            own += [a.elapsed_time(b) for a, b in zip(events, ready)]
        return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def weighting_by_hand(state, bucket):
    """What a user would write: the peer of the sweep."""
    buffer = bucket.buffer().mul_(state["weight"])
    if bucket.is_last():
        LAST_GRADIENT["event"] = torch.cuda.Event(enable_timing=True)
        LAST_GRADIENT["event"].record()
    work = dist.all_reduce(buffer, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def overhead(rank, told):
    del rank
    for name, network, precision, batch in (
            ("ResNet-18 FP32, 64 a GPU", "resnet18", "FP32", 64),
            # At 128 the host's enqueueing is the bound, and its noise.
            ("ResNet-50 bf16, 256 a GPU", "resnet50", "bf16", 256)):
        job = Job(network, precision, batch)
        plain = DistributedDataParallel(job.model)
        plain_ms, hook_ms = [], []
        # The second wrapper has its own copy, since hooks of one model's
        # gradients would both run.
        other = Job(network, precision, batch)
        shares = ucudnn.torch.share(
            RANKS * batch, times={"GPU": {1: 1.0, RANKS * batch: 9.0}},
            kind="GPU")
        hooked = shares.attach(DistributedDataParallel(other.model))
        assert shares.batch == batch
        job.step_ms(plain, batch, 10, 10)
        other.step_ms(hooked, batch, 10, 10)
        for _ in range(6):
            plain_ms += job.step_ms(plain, batch, 3, 15)
            hook_ms += other.step_ms(hooked, batch, 3, 15)
        told[name] = {
            "plain_ms": statistics.median(plain_ms),
            "hook_ms": statistics.median(hook_ms),
            "plain_steps_ms": plain_ms, "hook_steps_ms": hook_ms}


def enter_slice(rank):
    """Makes a green context's stream this process's current one."""
    from torch.cuda.green_contexts import GreenContext
    context = GreenContext.create(num_sms=SLICES[rank], device_id=rank)
    torch.cuda.set_stream(context.Stream())
    return context


def swept(job, batch, control, told):
    """The step's time of each split, first coarsely, then around the best."""
    hook = {"weight": 0.5}
    ddp = DistributedDataParallel(job.model)
    ddp.register_comm_hook(hook, weighting_by_hand)
    rank = dist.get_rank()
    told["sweep_steps_ms"], told["sweep_own_ms"] = {}, {}
    medians = {}

    def measure(first):
        if first in medians or not 0 < first < batch:
            return
        own = first if rank == 0 else batch - first
        hook["weight"] = own / batch
        until_gradients = told["sweep_own_ms"].setdefault(first, [])
        ms = job.step_ms(ddp, own, 3, 8, until_gradients)
        # Rank 0's numbers decide on both.
        shared = [statistics.median(ms)]
        dist.broadcast_object_list(shared, 0, group=control)
        medians[first] = shared[0]
        told["sweep_steps_ms"][first] = ms

    part = batch // 32
    for first in range(batch // 2, batch - part, part):
        measure(first)
    best = min(medians, key=medians.get)
    for offset in range(-part, part + 1, max(1, part // 4)):
        measure(best + offset)
    told["sweep_ms"] = medians
    best = min(medians, key=medians.get)

    def again():
        own = best if rank == 0 else batch - best
        hook["weight"] = own / batch
        return job.step_ms(ddp, own, 3, 8)

    return again


def slices(rank, told, network, precision, batch):
    context = enter_slice(rank)
    control = dist.new_group(backend="gloo")
    job = Job(network, precision, batch)
    calls = [0]

    def step(b):
        calls[0] += 1
        job.iterate(job.model, b)

    begun = time.monotonic()
    shares = ucudnn.torch.share(batch, step=step, cache_dir="")
    kinds = [None] * RANKS
    dist.all_gather_object(kinds, shares.device_kind, group=control)
    told["kinds"] = kinds
    if kinds[0] == kinds[1]:
        told["kinds"].append("named by hand: slices were not told apart")
        shares = ucudnn.torch.share(
            batch, step=step, cache_dir="", kind=f"{SLICES[rank]} SMs")
    told.update(
        batch=batch, planned=shares.batches, predicted_ms=shares.predicted_ms,
        even_predicted_ms=shares.even_ms, reasons=shares.reasons,
        planning_s=time.monotonic() - begun, calls=calls[0])
    measured = shares._source._steps.ranks[rank]
    told["alone_ms"] = measured.ms
    again = swept(job, batch, control, told)
    planned_job = Job(network, precision, batch)
    planned = shares.attach(DistributedDataParallel(planned_job.model))
    late_job = Job(network, precision, batch)
    # Times that give the same shares.
    others = ucudnn.torch.share(
        batch, kind=str(rank), times={
            str(r): {n: n / b for n in (1, batch)}
            for r, b in enumerate(shares.batches)})
    assert others.batches == shares.batches
    late = others.attach(
        DistributedDataParallel(late_job.model), overlap=False)
    even_job = Job(network, precision, batch)
    even = DistributedDataParallel(even_job.model)
    runs = {
        "planned": lambda: planned_job.step_ms(planned, shares.batch, 3, 8),
        "late": lambda: late_job.step_ms(late, shares.batch, 3, 8),
        "best": again,
        "even": lambda: even_job.step_ms(even, batch // RANKS, 2, 5)}
    for name in runs:
        told[name + "_steps_ms"] = []
    for _ in range(3):
        for name, measure in runs.items():
            told[name + "_steps_ms"] += measure()
    for name in runs:
        told[name + "_ms"] = statistics.median(told[name + "_steps_ms"])
    # Without the waiting for the other rank.
    told["own_ms"] = shares._attached.own_time.take_ms()[-5:]
    del context


def converted(rank, told):
    """ResNet-18 on slices: even DDP, planned shares, and both with planned
    convolutions."""
    batch = 128
    context = enter_slice(rank)
    jobs = {name: Job("resnet18", "FP32", batch)
            for name in ("even", "even_converted", "planned", "converted")}

    def step(b):
        jobs["planned"].iterate(jobs["planned"].model, b)

    shares = ucudnn.torch.share(
        batch, step=step, cache_dir="", kind=f"{SLICES[rank]} SMs")
    even = batch // RANKS
    sizes = {"even": even, "even_converted": even,
             "planned": shares.batch, "converted": shares.batch}
    told["report"] = {}
    for name in ("even_converted", "converted"):
        done = ucudnn.torch.convert(
            jobs[name].model, jobs[name].images[:sizes[name]], seconds=14,
            quiet=True)
        told["report"][name] = str(done)
    # Times that give the same shares.
    others = ucudnn.torch.share(
        batch, kind=str(rank), times={
            str(r): {n: n / b for n in (1, batch)}
            for r, b in enumerate(shares.batches)})
    models = {name: DistributedDataParallel(job.model)
              for name, job in jobs.items()}
    shares.attach(models["planned"])
    others.attach(models["converted"])
    for name in models:
        told[name + "_steps_ms"] = []
    for _ in range(3):
        for name, model in models.items():
            told[name + "_steps_ms"] += jobs[name].step_ms(
                model, sizes[name], 2, 6)
    for name in models:
        told[name + "_ms"] = statistics.median(told[name + "_steps_ms"])
    told.update(planned=shares.batches, reasons=shares.reasons)
    del context


def main():
    section, rank, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    alone = section == "one-gpu"
    torch.cuda.set_device(0 if alone else rank)
    dist.init_process_group(
        "gloo" if alone else "nccl", init_method=f"file://{folder}/rendezvous", rank=rank,
        world_size=RANKS, timeout=datetime.timedelta(seconds=60))
    told = {}
    try:
        if section == "checks":
            torch_share_checks.run(rank, told)
        elif alone:
            torch_share_checks.run_on_one_gpu(rank, told)
        elif section == "overhead":
            overhead(rank, told)
        elif section == "converted":
            converted(rank, told)
        elif section == "resnet18":
            slices(rank, told, "resnet18", "FP32", 128)
        else:
            slices(rank, told, "resnet50", "bf16", 256)
    finally:
        with open(os.path.join(folder, f"{rank}.json"), "w",
                  encoding="utf-8") as file:
            json.dump(told, file)
    # Without waiting for streams of a context that is gone.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
