"""One row of torch_memory.py, or its checks, on the current GPU:

    torch_memory_rows.py ROW|checks FILE

Writes FILE as JSON after each way."""

import contextlib
import copy
import gc
import os
import re
import statistics
import sys
import threading
import time
import traceback
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import ucudnn
import ucudnn.torch
from ucudnn.torch.kept import stateful, unchanged
from torch_common import Training, distance, laps, peak_of, warm_up, write

STEPS = 30
# Of torch.compile: what takes about half of the plain step's peak on ResNet-50.
COMPILE_BUDGET = 0.42
# Limits of a convolution's workspace, for VGG-16, to which PyTorch gives several GiB:
# for most of its convolutions, and for the second, whose tensors are the largest. In
# TF32 convolutions of parts of the batch take little longer.
WORKSPACES = {"FP32": ("1280MiB", "384MiB"), "TF32": ("512MiB", "128MiB")}
CONVERT_SECONDS = 60
# Relative to the gradients' length: rounding lets some values change their sign.
RECOMPUTED_OFF = {"FP32": 1e-3, "HALF": 5e-2}


class Row(Training):
    def __init__(self, text, image=224):
        super().__init__(text, image, momentum=0.9)

    def step(self, forward=None, saving=contextlib.nullcontext):
        self.optimizer.zero_grad(set_to_none=True)
        with saving():
            loss = self.loss(forward)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def in_blocks(self):
        """The forward pass that keeps the inputs of blocks alone."""
        model = self.model
        if self.name.startswith("resnet"):
            stem = [nn.Sequential(model.conv1, model.bn1, model.relu, model.maxpool)]
            parts = stem + [block for layer in (
                model.layer1, model.layer2, model.layer3, model.layer4)
                for block in layer]
            head = nn.Sequential(model.avgpool, nn.Flatten(), model.fc)
        else:
            parts, part = [], []
            for layer in model.features:
                part.append(layer)
                if isinstance(layer, nn.MaxPool2d):
                    parts.append(nn.Sequential(*part))
                    part = []
            head = nn.Sequential(model.avgpool, nn.Flatten(), model.classifier)

        def forward(x):
            for part in parts:
                x = checkpoint(part, x, use_reentrant=False)
            return head(x)

        return forward


class ByHand:
    """Each storage copied once, into pinned memory that is kept from step to step,
    on the stream that computes, and back when it is needed."""

    def __init__(self):
        self.pool, self.taken = {}, []

    def begin(self):
        for size, host in self.taken:
            self.pool.setdefault(size, []).append(host)
        self.taken, self.known = [], {}
        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        if tensor.requires_grad and tensor.is_leaf or size < 1 << 20:
            return tensor if tensor.is_leaf else tensor.detach()
        key = storage._cdata
        weak, entry = self.known.get(key, (None, None))
        if weak is None or weak.expired():
            elements = tensor.detach().as_strided(
                (size // tensor.element_size(),), (1,), 0)
            free = self.pool.get((size, tensor.dtype), [])
            host = free.pop() if free else torch.empty(
                elements.shape, dtype=tensor.dtype, pin_memory=True)
            self.taken.append(((size, tensor.dtype), host))
            host.copy_(elements, non_blocking=True)
            entry = [host, None, 0]
            weak = torch.multiprocessing.reductions.StorageWeakRef(storage)
            self.known[key] = weak, entry
        entry[2] += 1
        return entry, tensor.shape, tensor.stride(), tensor.storage_offset()

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        entry, shape, stride, offset = packed
        if entry[1] is None:
            entry[1] = entry[0].to("cuda", non_blocking=True)
        elements = entry[1]
        entry[2] -= 1
        if entry[2] == 0:
            entry[1] = None
        return elements.as_strided(shape, stride, offset)


def clean():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def measured(step, steps=STEPS):
    # The host is slower in the first steps under a plan.
    for _ in range(min(steps, 10)):
        step()
    peak = peak_of(step)
    ms = laps(step, steps)
    return {"ms": statistics.median(ms), "laps": ms, "peak": peak,
            "host_ms": host_ms(step)}


def host_ms(step, steps=5):
    """What the host takes to enqueue a step while the GPU waits for nothing."""
    told = []
    for _ in range(steps):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        step()
        told.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(told)


def graphed(step):
    """The step captured as a CUDA graph; the peak is that of capturing it."""
    warm_up(step)
    clean()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.reset_peak_memory_stats()
    with torch.cuda.graph(graph):
        step()
    peak = torch.cuda.max_memory_allocated()
    for _ in range(3):
        graph.replay()
    ms = laps(graph.replay, STEPS)
    return {"ms": statistics.median(ms), "laps": ms, "peak": peak}


def settled(step, *example, keep=(), **options):
    """A step that is planned, by calls after which all is as before."""
    plan = ucudnn.torch.memory(step, *example, keep=keep, quiet=True, **options)
    with unchanged(stateful(step, keep), torch.device("cuda")):
        for _ in range(12):
            plan(*example)
            if plan.settled:
                return plan
    raise RuntimeError(f"not settled: {plan.unlike or plan}")


def planned_on(row, budget, allow, step=None, graphs=False):
    """A plan within the budget, or the least one that is above it."""
    def make(size):
        return settled(step or row.step, budget=size, allow=allow, graphs=graphs,
                       keep=(row.model, row.optimizer))
    try:
        return make(budget)
    except ucudnn.NoPlan as error:
        return make(error.least)


def planned(row, budget, allow=("offload", "recompute")):
    return under(planned_on(row, budget, allow))


def under(plan):
    told = measured(plan)
    told.update(
        note=str(plan), step=plan.recorded_step, budget=plan.budget,
        predicted_ms=plan.predicted_ms, plain_ms=plan.plain_ms,
        predicted_peak=plan.predicted_peak, plain_peak=plan.plain_peak,
        bound_ms=plan.lower_bound_ms,
        moved=plan.moved_bytes, pinned=plan.pinned_bytes,
        recomputed=plan.recomputed_bytes, saved=plan.saved_bytes)
    return told


def replayed(plan):
    """Under a plan with graphs=True; the peak is that of capturing."""
    if not plan.replayed:
        raise RuntimeError(f"not captured:\n{plan}")
    told = under(plan)
    told["peak"] = plan.check(steps=1).measured_peak
    return told


def graphs(row, budget):
    """Steps as CUDA graphs, planned, and plain, captured by hand."""
    told = replayed(
        planned_on(row, budget, ("offload", "recompute"), graphs=True))
    clean()
    told["plain"] = graphed(row.step)
    told["note"] += f"; plain as a graph: {told['plain']['ms']:.2f} ms"
    return told


def converted(row, half):
    """Planned, with convolutions whose workspace is bounded."""
    second = row.model.features[2]
    inside = torch.rand(
        row.images.shape[0], second.in_channels, *row.images.shape[2:],
        device="cuda", requires_grad=True,
    )  # fmt: skip
    limits = {"enforce_limit": True, "quiet": True}
    most, of_second = WORKSPACES[row.precision]
    with row.autocast():
        done = ucudnn.torch.convert(
            row.model, row.images, workspace_limit=most,
            seconds=CONVERT_SECONDS, **limits)
        less = ucudnn.torch.convert(
            second, inside, workspace_limit=of_second, **limits)
    del inside
    try:
        plain = measured(row.step)
        plan = planned_on(row, half, ("offload", "recompute"))
        told = under(plan)
        told["off"] = distance(gradients(row, plan), gradients(row, row.step))
    finally:
        done.revert()
        less.revert()
    told.update(conversion=f"{done}\n{less}", unplanned=plain)
    told["note"] += (f"; converted alone: {plain['ms']:.2f} ms, peak "
                     f"{plain['peak'] / 2**30:.2f} GiB; gradients {told['off']:.1e} "
                     "off")
    return told


def compiled(row):
    import torch._functorch.config
    torch._functorch.config.activation_memory_budget = COMPILE_BUDGET
    forward = torch.compile(row.model)
    return measured(lambda: row.step(forward))


def ways_of(row, told):
    yield "plain", lambda: measured(row.step)
    half = int(told["plain"]["peak"] // 2)
    yield "planned", lambda: planned(row, half)
    if row.half:
        yield "graphs", lambda: graphs(row, half)
    if row.name == "vgg16":
        yield "converted", lambda: converted(row, half)
    forward = row.in_blocks()
    yield "checkpoint", lambda: measured(lambda: row.step(forward))
    if row.name == "resnet50" and not row.half:
        yield "offload", lambda: planned(row, half, "offload")
    by_hand = ByHand()
    yield "by hand", lambda: measured(
        lambda: row.step(saving=by_hand.begin), 3)
    by_hand.pool, by_hand.taken = {}, []
    if "peak" in told.get("by hand", {}):
        yield "equal peak", lambda: planned(
            row, told["by hand"]["peak"], "offload")
    if not row.half:
        yield "save_on_cpu", lambda: measured(lambda: row.step(
            saving=lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)), 2)
    if row.name == "resnet50":
        yield "compiled", lambda: compiled(row)
        if "peak" in told.get("compiled", {}):
            peak = told["compiled"]["peak"]
            yield "as compiled", lambda: planned(row, peak)
            yield "as compiled, graph", lambda: graphs(row, peak)


def run_row(text, path):
    torch.backends.cudnn.benchmark = True
    row = Row(text)
    told = {}
    chosen = os.environ.get("UCUDNN_WAYS", "")
    for way, run in ways_of(row, told):
        if way != "plain" and not re.fullmatch(chosen or ".*", way):
            continue
        clean()
        try:
            begun = time.monotonic()
            told[way] = run()
            told[way]["seconds"] = time.monotonic() - begun
        except Exception:  # noqa: BLE001  the others go on
            told[way] = {"text": traceback.format_exc()}
            print(text, way, told[way]["text"], flush=True)
        write(told, path)


# --- Checks.

def results(row, step, steps=3):
    """Losses and parameters after some steps from the same start."""
    start = copy.deepcopy(row.model.state_dict())
    row.optimizer.state.clear()
    losses = [step().clone() for _ in range(steps)]
    found = losses + [t.clone() for t in row.model.state_dict().values()]
    row.model.load_state_dict(start)
    row.optimizer.state.clear()
    row.optimizer.zero_grad(set_to_none=True)
    return found


def apart(some, others):
    return max(float((a.double() - b.double()).abs().max()
                     / b.double().abs().max().clamp(min=1e-30))
               for a, b in zip(some, others))


def check_bits(precision):
    row = Row(f"resnet18:32:{precision}", image=96)
    expected = results(row, row.step)
    again = apart(results(row, row.step), expected)
    whole = planned_on(row, 1 << 40, "offload")
    told = []
    for share in (0.7, 0.5):
        plan = planned_on(row, int(whole.plain_peak * share), "offload")
        off = apart(results(row, plan), expected)
        told.append((off, len(plan.moved)))
    text = f"plain twice {again:.1e} apart; offloaded " + ", ".join(
        f"{off:.1e} ({count} moved)" for off, count in told)
    return all(off <= 2 * again and count for off, count in told), text


def gradients(row, step):
    """Of one step; afterwards all is as before."""
    torch.manual_seed(2)
    start = copy.deepcopy(row.model.state_dict())
    step()
    found = [p.grad for p in row.model.parameters()]
    row.model.load_state_dict(start)
    row.optimizer.state.clear()
    row.optimizer.zero_grad(set_to_none=True)
    return found


def check_recompute(precision):
    row = Row(f"resnet18:32:{precision}", image=96)
    expected = gradients(row, row.step)
    whole = planned_on(row, 1 << 40, "recompute")
    plan = planned_on(row, int(whole.plain_peak * 0.8), "recompute")
    found = gradients(row, plan)
    off = distance(found, expected)
    text = (f"gradients {off:.1e} off; {len(plan.recomputed)} computed again; the "
            f"same bits: {plan.exact}")
    return off <= RECOMPUTED_OFF[precision] and bool(plan.recomputed), text


def check_graph():
    """A plan's step that is replayed, from the same start as steps of the plain one:
    the optimizer has no state."""
    row = Row("resnet18:32:FP32", image=96)
    expected = results(row, row.step)
    whole = planned_on(row, 1 << 40, "offload")
    plan = planned_on(row, int(whole.plain_peak * 0.6), "offload", graphs=True)
    off = apart(results(row, plan), expected)
    told = plan.check()
    held = off == 0 and plan.replayed and bool(plan.moved)
    return held, f"{off:.1e} off, {len(plan.moved)} moved; {told}"


def check_arguments():
    """A step that is replayed with other images in each call, with random numbers,
    and with a learning rate that changes once."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Dropout(0.2), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).cuda()
    start = copy.deepcopy(model.state_dict())
    batches = [(torch.randn(32, 3, 32, 32, device="cuda"),
                torch.randint(0, 10, (32,), device="cuda")) for _ in range(12)]

    def trained(graphs):
        model.load_state_dict(start)
        model.zero_grad(set_to_none=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)

        def step(x, y):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        plan = ucudnn.torch.memory(step, *batches[0], budget="1GiB", graphs=graphs,
                                   quiet=True)
        torch.manual_seed(3)
        losses = []
        for batch in batches:
            losses.append(plan(*batch).clone())
            if len(losses) == 8:
                optimizer.param_groups[0]["lr"] = 1e-4
        found = losses + [t.clone() for t in model.state_dict().values()]
        return found, plan.replayed

    expected, _ = trained(False)
    found, replays = trained(True)
    off = apart(found, expected)
    return replays and off <= 1e-5, f"{off:.1e} off; replayed: {replays}"


def check_not_captured():
    """Steps that wait for the GPU are enqueued, and nothing of a capture that failed
    stays: random numbers work, and its memory is free."""
    row = Row("resnet18:64:FP32", image=96)
    whole = planned_on(row, 1 << 40, "offload")
    budget = int(whole.plain_peak * 0.6)
    del whole
    held, told = True, []
    for wait in (lambda loss: loss.item(), lambda loss: torch.cuda.synchronize()):
        def step():
            loss = row.step()
            wait(loss)
            return loss

        expected = results(row, step)
        clean()
        reserved = torch.cuda.memory_reserved()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = planned_on(row, budget, "offload", step, graphs=True)
        clean()
        more = torch.cuda.memory_reserved() - reserved
        torch.rand(8, device="cuda").cpu()
        off = apart(results(row, plan), expected)
        texts = [str(one.message) for one in caught if "enqueued" in str(one.message)]
        told.append(f"{off:.1e} off, {more >> 20} MiB stay, {texts}")
        held &= (off == 0 and more < 100 << 20 and len(texts) == 1
                 and not plan.replayed)
        del plan
    return held, "; ".join(told)


def check_prediction():
    row = Row("resnet18:64:FP32")
    torch.backends.cudnn.benchmark = True
    try:
        whole = planned_on(row, 1 << 40, "offload")
        plan = planned_on(row, int(whole.plain_peak * 0.6), ("offload", "recompute"))
        told = plan.check()
        off = abs(told.measured_peak / told.predicted_peak - 1)
        return off <= 0.02, str(told)
    finally:
        torch.backends.cudnn.benchmark = False


def check_compiled():
    row = Row("resnet18:4:FP32", image=64)
    forward = torch.compile(row.model)
    expected = float(row.step(forward))
    row = Row("resnet18:4:FP32", image=64)
    forward = torch.compile(row.model)
    plan = settled(lambda: row.step(forward), budget="1GiB",
                   keep=(row.model, row.optimizer))
    return float(plan()) == expected, str(plan)


def small():
    """A model with dropout, and a step of it on any batch."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.Tanh(), nn.Dropout(0.2),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, optimizer, step


def images(count=32):
    return (torch.randn(count, 3, 64, 64, device="cuda"),
            torch.randint(0, 10, (count,), device="cuda"))


def tight(step, *example, **options):
    """A plan that needs about the least memory."""
    try:
        return settled(step, *example, budget=1, **options)
    except ucudnn.NoPlan as refused:
        return settled(step, *example, budget=refused.least, **options)


def check_masks():
    """Dropout's masks are those of the forward pass in the backward pass, whatever is
    moved or computed again, and others in each call."""
    held, told = True, []
    for ways in ("offload", "recompute", ("offload", "recompute")):
        model, _, step = small()
        before, behind = [], []

        def noted(module, inputs, output, before=before, behind=behind):
            # On the host: what they took on the GPU would count as the step's.
            before.append((output.detach() != 0).cpu())
            inputs[0].register_hook(
                lambda gradient: behind.append((gradient != 0).cpu()))

        model[6].register_forward_hook(noted)
        plan = tight(step, *images(), allow=ways)
        before.clear(), behind.clear()
        for _ in range(3):
            plan(*images())
        same = len(behind) == 3 and all(map(torch.equal, before, behind))
        other = not torch.equal(before[0], before[1])
        held &= same and other and bool(plan.moved or plan.recomputed)
        told.append(f"{ways}: the same masks {same}, others in each call {other}, "
                    f"{len(plan.moved)} moved, {len(plan.recomputed)} again")
    return held, "; ".join(told)


def check_changes():
    """A step that is replayed follows what changes in its model, or refuses it."""
    def group(model, optimizer):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2).cuda())]})

    def head(model, optimizer):
        for parameter in model[-1].parameters():
            optimizer.state.pop(parameter, None)
        model[-1] = nn.Linear(32, 10).cuda()
        optimizer.param_groups[0]["params"][-2:] = list(model[-1].parameters())

    changes = {
        "eval": lambda model, _: model.eval(),
        "requires_grad": lambda model, _: model[0].requires_grad_(False),
        "dropout": lambda model, _: setattr(model[6], "p", 0.0),
        "a group": group,
        "a head": head,
    }
    held, told = True, []
    for name, change in changes.items():
        found = []
        for graphs in (False, True):
            model, optimizer, step = small()
            run = step
            if graphs:
                run = settled(step, *images(), budget="8GiB", graphs=True,
                              allow="offload")
                held &= run.replayed
            torch.manual_seed(2)
            batch = images()
            run(*batch)
            change(model, optimizer)
            try:
                losses = [run(*batch).clone() for _ in range(3)]
            except ucudnn.InvalidArgument as error:
                told.append(f"{name}: {str(error)[:80]}")
                held &= "has changed since the step was captured" in str(error)
                break
            found.append([*losses, *(p.detach() for p in model.parameters())])
        if len(found) == 2:
            off = apart(found[1], found[0])
            told.append(f"{name}: {off:.1e} off")
            held &= off <= 1e-4
    return held, "; ".join(told)


def check_pinning():
    """A step is captured again while another thread pins memory."""
    _, optimizer, step = small()
    batch = images()
    plan = settled(step, *batch, budget="8GiB", graphs=True)
    ended, failed, count = threading.Event(), [], [0]

    def pin():
        try:
            while not ended.is_set():
                count[0] += 1
                host = torch.empty(100_000 + 997 * count[0]).pin_memory()
                host.cuda(non_blocking=True)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=pin)
    thread.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(20):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
            plan(*batch), plan(*batch)
    ended.set()
    thread.join()
    torch.cuda.synchronize()
    texts = [str(one.message) for one in caught if "enqueued" in str(one.message)]
    held = plan.replayed and not failed and not texts
    return held, f"{count[0]} blocks pinned, {failed}, {texts}"


def check_slices():
    """Batches that are slices of a data set on the GPU."""
    data, labels = images(1024)
    model, _, step = small()
    model[6].p = 0.0
    plan = tight(step, data[:32], labels[:32], allow="recompute")
    sizes = [one["bytes"] for one in plan.recorded_step["tensors"]]
    start = copy.deepcopy(model.state_dict())
    found = []
    for run in (step, plan):
        model.load_state_dict(start)
        run(data[96:128], labels[96:128])
        found.append([p.grad.clone() for p in model.parameters()])
    off = distance(found[1], found[0])
    held = off <= RECOMPUTED_OFF["FP32"] and max(sizes) < data.nbytes
    return held, f"gradients {off:.1e} off; {len(plan.recomputed)} computed again"


def check_least():
    """The least budget that is named is accepted when it is given back."""
    held, told = True, []
    for text in ("resnet18:32:FP32", "vit_b_16:8:FP32"):
        row = Row(text, image=224)
        for _ in range(2):
            plan = tight(row.step, keep=(row.model, row.optimizer))
            measured_peak = plan.check(steps=1).measured_peak
            held &= measured_peak <= plan.budget
            told.append(f"{text}: {measured_peak >> 20} of {plan.budget >> 20} MiB")
    return held, "; ".join(told)


def run_checks(path):
    torch.backends.cudnn.deterministic = True
    checks = {
        "offload gives the same bits, FP32": lambda: check_bits("FP32"),
        "offload gives the same bits, half NHWC": lambda: check_bits("HALF"),
        "computing again, FP32": lambda: check_recompute("FP32"),
        "computing again, half NHWC": lambda: check_recompute("HALF"),
        "replayed as a CUDA graph": check_graph,
        "replayed with other arguments": check_arguments,
        "steps that cannot be captured": check_not_captured,
        "peak as predicted": check_prediction,
        "compiled models train as before": check_compiled,
        "masks of dropout": check_masks,
        "models that change are followed or refused": check_changes,
        "captured beside a thread that pins memory": check_pinning,
        "slices of a data set on the GPU": check_slices,
        "the least budget is accepted": check_least,
    }
    told = {}
    for name, check in checks.items():
        clean()
        try:
            held, text = check()
        except Exception:  # noqa: BLE001
            held, text = False, traceback.format_exc()
            print(name, text, flush=True)
        told[name] = {"held": bool(held), "text": text}
        write(told, path)


if __name__ == "__main__":
    if sys.argv[1] == "checks":
        run_checks(sys.argv[2])
    else:
        run_row(sys.argv[1], sys.argv[2])
