"""What torch_share.py's section `checks` compares: two ranks with unlike shares
against one process with the whole mini-batch, on rank 0's GPU."""

import copy
import gc

import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import ucudnn
import ucudnn.torch

# 12 images of 16 on rank 0.
TIMES = {"fast": {1: 1.0, 64: 64.0}, "slow": {1: 3.0, 64: 192.0}}


def shares_of(rank, batch, **options):
    return ucudnn.torch.share(
        batch, times=TIMES, kind=("fast", "slow")[rank], **options)


def part_of(shares, tensor):
    return tensor[shares.first_image:shares.first_image + shares.batch]


def random_batch(batch, size):
    torch.manual_seed(2)
    images = torch.randn(batch, 3, size, size, device="cuda")
    return images, torch.randint(0, 10, (batch,), device="cuda")


def small(normalise=True):
    torch.manual_seed(3)
    layers = [nn.Conv2d(3, 16, 3, padding=1)]
    if normalise:
        layers.append(nn.BatchNorm2d(16))
    layers += [nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2), nn.ReLU(),
               nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*layers).cuda()


def ddp_of(model):
    return DistributedDataParallel(
        model, device_ids=[torch.cuda.current_device()])


def losses_of(model, batches, mean=lambda loss: loss.detach(), rate=0.01):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(mean(loss).item())
    return losses


def relative(values, expected):
    return max(abs(a - b) / abs(b) for a, b in zip(values, expected))


def farthest(some, others):
    return max((a - b).abs().max().item() for a, b in zip(some, others))


def losses(rank, plain):
    """VGG-11 without dropout: FP32, no BatchNorm, batch 64."""
    torch.manual_seed(4)
    model = torchvision.models.vgg11(num_classes=10, dropout=0.0).cuda()
    expected = copy.deepcopy(model)
    batch, steps = 64, 5
    images, labels = random_batch(batch * steps, 64)
    steps_of = list(zip(images.split(batch), labels.split(batch)))
    shares = shares_of(rank, batch)
    ddp = ddp_of(model)
    if not plain:
        shares.attach(ddp)
    told = losses_of(
        ddp, [(part_of(shares, x), part_of(shares, y)) for x, y in steps_of],
        shares.mean)
    return relative(told, losses_of(expected, steps_of))


def synchronised_statistics(rank, idle):
    batch = 16
    images, labels = random_batch(batch, 8)
    model = small()
    expected = copy.deepcopy(model)
    times = TIMES if not idle else {"fast": {16: 1.0}, "slow": {16: 900.0}}
    shares = ucudnn.torch.share(
        batch, times=times, kind=("fast", "slow")[rank], idle=idle)
    ddp = shares.attach(
        ddp_of(nn.SyncBatchNorm.convert_sync_batchnorm(model)))
    assert shares.batches == ([16, 0] if idle else [12, 4])
    losses_of(ddp, [(part_of(shares, images), part_of(shares, labels))] * 3)
    losses_of(expected, [(images, labels)] * 3)
    weights = farthest(ddp.parameters(), expected.parameters())
    statistics = farthest(
        [b.double() for b in ddp.buffers()],
        [b.double() for b in expected.buffers()])
    return max(weights, statistics)


def scaled_gradients(rank):
    """Half precision under a GradScaler whose first scale overflows: all ranks
    skip the same steps and keep the same weights."""
    images, labels = random_batch(16, 8)
    shares = shares_of(rank, 16)
    ddp = shares.attach(ddp_of(small(normalise=False)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
    for _ in range(40):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(
                ddp(part_of(shares, images)), part_of(shares, labels))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    told = torch.tensor(
        [scaler.get_scale(), *(p.double().sum() for p in ddp.parameters())],
        dtype=torch.float64, device="cuda")
    both = [torch.empty_like(told) for _ in range(2)]
    dist.all_gather(both, told)
    skipped = scaler.get_scale() < 2.0**40
    finite = bool(torch.isfinite(told).all())
    return float((both[0] - both[1]).abs().max()), skipped and finite


def chained_hook(rank):
    images, labels = random_batch(16, 8)
    shares = shares_of(rank, 16)
    model = small(normalise=False)
    expected = copy.deepcopy(model)
    ddp = shares.attach(ddp_of(model), default_hooks.fp16_compress_hook)
    losses_of(ddp, [(part_of(shares, images), part_of(shares, labels))])
    losses_of(expected, [(images, labels)])
    return farthest(ddp.parameters(), expected.parameters())


def beyond_memory(rank):
    """ResNet-50 with little memory on rank 0: its share takes several passes."""
    batch = 64
    gpu = torch.cuda.current_device()
    model = torchvision.models.resnet50(num_classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = random_batch(batch, 224)

    def step(b):
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images[:b]), labels[:b]).backward()
        optimizer.step()

    before = [p.detach().clone() for p in model.parameters()]
    total = torch.cuda.get_device_properties(gpu).total_memory
    gc.collect()  # models of earlier checks
    torch.cuda.empty_cache()
    if rank == 0:
        torch.cuda.set_per_process_memory_fraction(2.0 * 2**30 / total, gpu)
    try:
        shares = ucudnn.torch.share(
            batch, step=step, cache_dir="", kind=("little", "plenty")[rank])
        kept = farthest(model.parameters(), before) == 0 and not optimizer.state
        ddp = shares.attach(ddp_of(model))
        x, y = part_of(shares, images), part_of(shares, labels)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            for some, their_labels in shares.micro_batches(x, y):
                nn.functional.cross_entropy(ddp(some), their_labels).backward()
            optimizer.step()
        torch.cuda.synchronize()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, gpu)
    return shares.batches, shares.micro_steps, kept, shares.reasons


def shared_gpu(rank):
    try:
        shares_of(rank, 16, device="cuda:0")
    except ucudnn.InvalidArgument as error:
        return str(error)
    return "accepted"


def refused(run):
    """What an error of ucudnn says; else what happened."""
    try:
        run()
    except ucudnn.InvalidArgument as error:
        return str(error)
    except ImportError as error:
        return f"not installed: {error}"
    return "accepted"


def frameworks(rank):
    """Real wrappers, each with what it must be refused for. Accelerate comes
    last: its state stays in the process."""
    shares = shares_of(rank, 16)
    dataset = torch.utils.data.TensorDataset(torch.ones(64, 3))

    def fsdp():
        from torch.distributed.fsdp import FullyShardedDataParallel
        shares.attach(FullyShardedDataParallel(small(normalise=False)))

    def fully_sharded():
        from torch.distributed.fsdp import fully_shard
        model = small(normalise=False)
        fully_shard(model)
        shares.attach(model)

    def loader():
        return torch.utils.data.DataLoader(
            dataset, shares.batch, sampler=shares.sampler(dataset),
            drop_last=True)

    def accelerate():
        from accelerate.data_loader import prepare_data_loader
        shares.check(loader())
        shares.check(prepare_data_loader(
            loader(), num_processes=2, process_index=rank,
            put_on_device=False))

    return {"FSDP": (refused(fsdp), "FSDP averages"),
            "fully_shard": (refused(fully_sharded), "FSDP averages"),
            "Accelerate's loader": (refused(accelerate), "deals batches out")}


def noting(told):
    def check(name, goal, held, text):
        told[name] = {"goal": goal, "held": bool(held), "text": text}

    return check


def run_on_one_gpu(rank, told):
    """What gloo can show, which joins ranks of one GPU."""
    check = noting(told)
    value = losses(rank, plain=False)
    check("losses, FP32 without BatchNorm, 48 + 16", "at most 1e-5",
          value <= 1e-5, f"{value:.1e}")
    value = losses(rank, plain=True)
    check("the same under plain DDP", "wrong: above 1e-3", value > 1e-3,
          f"{value:.1e}")
    for idle in (False, True):
        value = synchronised_statistics(rank, idle)
        check(f"SyncBatchNorm, {'16 + 0' if idle else '12 + 4'}",
              "weights and statistics within 1e-5", value <= 1e-5, f"{value:.1e}")


def run(rank, told):
    run_on_one_gpu(rank, told)
    check = noting(told)
    value, held = scaled_gradients(rank)
    check("GradScaler", "ranks equal after skipped steps", held and value == 0,
          f"{value:.1e}")
    value = chained_hook(rank)
    check("fp16_compress_hook after it", "weights within 1e-4", value <= 1e-4,
          f"{value:.1e}")
    text = shared_gpu(rank)
    check("two ranks on one GPU", "refused", "on one GPU" in text, text)
    batches, passes, kept, reasons = beyond_memory(rank)
    check("a share beyond memory (2 GiB), ResNet-50 FP32, batch 64",
          "several passes; the model as before measuring",
          kept and sum(batches) == 64 and (passes > 1 or rank > 0),
          f"{batches[0]} + {batches[1]} images, {passes} passes on rank 0; "
          + "; ".join(reasons))
    for name, (text, expected) in frameworks(rank).items():
        check(name, "refused",
              expected in text or text.startswith("not installed"), text)
