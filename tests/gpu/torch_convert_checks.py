"""What torch_convert.py's section `checks` compares, on the current GPU:
torch_convert_checks.py FILE writes FILE after each check, the others as not run.
UCUDNN_CHECKS, a regular expression, chooses by name."""

import copy
import gc
import os
import re
import sys
import tempfile
import threading
import time
import traceback

import torch
from torch import nn

import torch_convert_accuracy
import ucudnn.torch
from torch_common import warm_up, write
from ucudnn.torch.convolution import contest, converting, planned
from ucudnn.torch.convolution.swapping import planned_in

COMPARE_PASSES = converting._compare_passes
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 5, padding=2, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 64, 3, padding="same")
        self.third = nn.Conv2d(64, 64, 3, stride=2, groups=4)
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x))
        return self.last(self.third(x).mean((2, 3)))


def network(layout=torch.contiguous_format):
    torch.manual_seed(1)
    return Net().cuda().to(memory_format=layout)


def images(layout=torch.contiguous_format):
    torch.manual_seed(2)
    return torch.randn(8, 3, 24, 24, device="cuda").contiguous(
        memory_format=layout).requires_grad_()


def results(model, x):
    out = model(x)
    wanted = [x, *model.parameters()]
    return [out.detach(), *torch.autograd.grad(out.float().square().sum(), wanted)]


def distance(some, others):
    return max(float((a.float() - b.float()).norm() / (b.float().norm() + 1e-9))
               for a, b in zip(some, others))


def converted(model, x, **options):
    done = ucudnn.torch.convert(model, x, quiet=True, **options)
    assert len(done.converted) == 3, str(done)
    return done


class Runs:
    """Counts the plans that run within."""

    def __enter__(self):
        self.count, self._plain = 0, planned.PlannedCall.run

        def run(call, *rest):
            self.count += 1
            return self._plain(call, *rest)

        planned.PlannedCall.run = run
        return self

    def __exit__(self, *error):
        planned.PlannedCall.run = self._plain


def type_and_layout(dtype, layout):
    def check():
        model, x = network(layout), images(layout)
        full = dtype == torch.float32
        with torch.autocast(
                "cuda", torch.float16 if full else dtype, enabled=not full):
            expected = results(copy.deepcopy(model), x)
            converted(model, x)
            with Runs() as runs:
                told = results(model, x)
        # Three forward, three filter and three data gradients.
        off = distance(told, expected)
        return runs.count == 9 and off < TOLERANCE[dtype], f"{off:.1e} off"
    return check


def deterministic():
    """Nothing is converted in this mode, and what was runs no plan."""
    model, x = network(), images()
    converted(model, x)
    torch.backends.cudnn.deterministic = True
    try:
        left = not ucudnn.torch.convert(network(), x, quiet=True).converted
        with Runs() as runs:
            first, *others = (results(model, x) for _ in range(6))
        equal = all(
            torch.equal(a, b) for told in others for a, b in zip(told, first))
    finally:
        torch.backends.cudnn.deterministic = False
    return (left and runs.count == 0 and equal,
            f"{'nothing' if left else 'a model'} converted, {runs.count} plans "
            f"ran, six passes {'bitwise equal' if equal else 'differ'}")


def compiled(backend):
    def check():
        model, x = network(), images()
        expected = results(copy.deepcopy(model), x)
        converted(model, x)
        torch._dynamo.reset()
        faster = torch.compile(model, backend=backend, fullgraph=True)
        results(faster, x)
        with Runs() as runs:
            told = results(faster, x)
        off = distance(told, expected)
        with torch.autocast("cuda", torch.float16):
            half = results(faster, x)  # not planned: PyTorch's own
        also = distance(half, expected)
        return (runs.count == 9 and off < 1e-4 and also < 5e-2,
                f"{runs.count} plans ran, {off:.1e} off; half {also:.1e}")
    return check


def operators():
    model, x = network(), images()
    converted(model, x)
    module = model.second
    (one,) = planned_in(module).calls
    call = one.call
    taken = torch.randn(call.input, device="cuda", requires_grad=True)
    told = torch.library.opcheck(
        torch.ops.ucudnn.convolution.default,
        (taken, module.weight, module.bias, list(call.stride), list(call.padding),
         list(call.dilation), call.groups, one.key))
    return all(v == "SUCCESS" for v in told.values()), str(told)


def whole_graph():
    """Steps of an optimizer replayed as one graph, against enqueued ones."""
    losses = []
    for use_graph in (False, True):
        model, x = network(), images().detach()
        converted(model, x)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = model(x).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        warm_up(step)
        if not use_graph:
            losses.append([step().item() for _ in range(5)])
            continue
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        replayed = []
        for _ in range(5):
            graph.replay()
            replayed.append(loss.item())
        losses.append(replayed)
    off = max(abs(a - b) / abs(a) for a, b in zip(*losses))
    return off < 1e-4, f"losses {off:.1e} off"


def graph_after_passes():
    """The capture of a step right after `convert` has compared whole passes on the
    default stream, before Python collects garbage."""
    skipped = converting._compare_passes
    converting._compare_passes = COMPARE_PASSES
    model, x = network(), images().detach()
    gc.collect()
    gc.disable()
    try:
        done = ucudnn.torch.convert(model, x, quiet=True)
        done.apply()  # even if the passes were not faster

        def step():
            model.zero_grad(set_to_none=True)
            model(x).float().square().mean().backward()

        warm_up(step)
        expected = [p.grad.clone() for p in model.parameters()]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), Runs() as runs:
            step()
        graph.replay()
        off = distance([p.grad for p in model.parameters()], expected)
    finally:
        gc.enable()
        converting._compare_passes = skipped
    passes = done.before is not None and done.after is not None
    return (passes and runs.count == 8 and off < 1e-4,
            f"{runs.count} plans captured, gradients {off:.1e} off")


def two_streams():
    """Two models at once, each with a thread and a stream of its own."""
    pairs = []
    for _ in range(2):
        model, x = network(), images()
        expected = results(copy.deepcopy(model), x)
        converted(model, x)
        pairs.append((model, x, expected))
    torch.cuda.synchronize()
    worst, errors = [], []

    def work(model, x, expected):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(30):
                    told = results(model, x)
                torch.cuda.current_stream().synchronize()
                worst.append(distance(told, expected))
        except Exception as error:  # noqa: BLE001  told below
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (not errors and len(worst) == 2 and max(worst) < 1e-4,
            f"{max(worst or [0]):.1e} off {'; '.join(errors)}")


def twice_differentiated():
    def second(model, x):
        grad, = torch.autograd.grad(
            model(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), list(model.parameters()))

    model, x = network(), images()
    expected = second(copy.deepcopy(model), x)
    converted(model, x)
    off = distance(second(model, x), expected)
    return off < 1e-3, f"{off:.1e} off"


def grad_scaler():
    model, x = network(), images().detach()
    with torch.autocast("cuda", torch.float16):
        converted(model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
    losses = []
    with Runs() as runs:
        for _ in range(40):
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    skipped = scaler.get_scale() < 2.0**40
    return (skipped and losses[-1] < losses[0] and runs.count == 40 * 8,
            f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {runs.count} plans ran")


# In the order of what they tell, since time may end them.
CHECKS = {
    "CUDA graph right after convert": graph_after_passes,
    "FP32 NCHW": type_and_layout(torch.float32, torch.contiguous_format),
    "CUDA graph of whole steps": whole_graph,
    "two threads and streams": two_streams,
    "double backward": twice_differentiated,
    "operators (opcheck)": operators,
    "torch.compile, aot_eager": compiled("aot_eager"),
    **torch_convert_accuracy.CHECKS,
    "autocast half, NCHW": type_and_layout(
        torch.float16, torch.contiguous_format),
    "autocast with GradScaler": grad_scaler,
    "torch.compile, inductor": compiled("inductor"),
    "deterministic": deterministic,
    "FP32 NHWC": type_and_layout(torch.float32, torch.channels_last),
    "autocast half, NHWC": type_and_layout(torch.float16, torch.channels_last),
    "autocast bfloat16, NHWC": type_and_layout(
        torch.bfloat16, torch.channels_last),
}


def main():
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    # Takes every plan, however slow: their results are checked here.
    contest._LEAST_GAIN = -1e9
    contest._LEAST_SHARE = 0.0
    converting._compare_passes = lambda done, *rest: done.apply()
    chosen = {name: check for name, check in CHECKS.items()
              if re.search(os.environ.get("UCUDNN_CHECKS", ""), name)}
    told = {name: {"held": None, "text": ""} for name in chosen}

    write(told, sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UCUDNN_CACHE_DIR"] = folder
        for name, check in chosen.items():
            begun = time.monotonic()
            try:
                held, text = check()
            except Exception:  # noqa: BLE001  the others go on
                held, text = False, traceback.format_exc()[-1500:]
            told[name] = {"held": bool(held), "text": text,
                          "seconds": time.monotonic() - begun}
            write(told, sys.argv[1])
            print(name, told[name], flush=True)


if __name__ == "__main__":
    main()
