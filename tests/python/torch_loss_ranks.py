"""One rank of test_torch_losses.py, as torch_rank.py says."""

import copy
import itertools
import sys
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_rank import (
    BATCH,
    FOLDER,
    KIND,
    RANK,
    RANKS,
    TIMES,
    alone,
    difference,
    images,
    loader_of,
    refusal,
    run,
    shared,
    train,
)

import ucudnn
import ucudnn.torch
from ucudnn.torch.parallel.cache import StepCache

FILES = itertools.count()
LABELLED = torch.tensor([1, 5, 0, 6, 1, 3, 6, 4])  # tokens of each image


def part_of(shares, tensor):
    return tensor[shares.first_image : shares.first_image + shares.batch]


class Tokens(nn.Module):
    """Six tokens of three classes for an image, in single precision."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.trunk, self.head = nn.Linear(5, 7), nn.Linear(7, 18)

    def forward(self, x):
        return self.head(self.trunk(x).tanh()).unflatten(1, (6, 3))


def inputs():
    return torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(1))


def labels():
    """Of each token; those of padding are -100."""
    torch.manual_seed(5)
    of_all = torch.randint(0, 3, (BATCH, 6))
    of_all[torch.arange(6) >= LABELLED[:, None]] = -100
    return of_all


def token_loss(out, y, reduction):
    return F.cross_entropy(out.flatten(0, 1), y.flatten(), reduction=reduction)


def gradients(model, x, y, loss, shares=None):
    """After a pass of `loss`, on this rank's part if there are shares."""
    if shares is not None:
        x, y = part_of(shares, x), part_of(shares, y)
    loss(model, x, y).backward()
    return [p.grad for p in model.parameters()]


def apart(some, others):
    """Relative to the largest."""
    largest = max(g.abs().max() for g in others)
    return difference(some, others) / float(largest)


def against_one_process(kind, on_rank, whole):
    """The distance of a rank's gradients, and of those by images alone."""
    x, y = inputs(), labels()
    expected = gradients(Tokens(), x, y, whole)
    told = {}
    for loss in (kind, "images"):
        shares = shared()
        ddp = shares.attach(DistributedDataParallel(Tokens()), loss=loss)
        told[loss] = apart(
            gradients(ddp, x, y, lambda *args: on_rank(shares, *args), shares),
            expected,
        )
    return told


# --- Scenarios. Each returns what the test compares.


def a_mean_over_images():
    def loss(model, x, y):
        return token_loss(model(x), y.clamp(min=0), "mean")

    return against_one_process("images", lambda shares, *args: loss(*args), loss)


def a_sum_over_images():
    def loss(model, x, y):
        return token_loss(model(x), y, "sum")

    return against_one_process("sum", lambda shares, *args: loss(*args), loss)


def a_mean_over_labelled_tokens():
    def loss(model, x, y):
        return token_loss(model(x), y, "mean")

    def on_rank(shares, model, x, y):
        if shares._attached.loss == "items":
            shares.count((y != -100).sum())
        return loss(model, x, y)

    return against_one_process("items", on_rank, loss)


def a_loss_normalised_over_all_ranks():
    def on_rank(shares, model, x, y):
        tokens = (y != -100).sum().double()
        dist.all_reduce(tokens)
        return token_loss(model(x), y, "sum") / (tokens / RANKS)

    def whole(model, x, y):
        return token_loss(model(x), y, "mean")

    return against_one_process("ranks", on_rank, whole)


def a_loss_on_the_rows_of_all_ranks():
    """Each image's first tokens against the last ones of all."""

    def contrasted(first, last):
        return F.cross_entropy(first @ last.T, torch.arange(BATCH))

    def whole(model, x, y):
        rows = model(x)
        return contrasted(rows[:, :3].flatten(1), rows[:, 3:].flatten(1))

    def on_rank(shares, model, x, y):
        rows = model(x)
        if shares._attached.loss == "images":  # refuses gather()
            shares = copy.copy(shares)
            shares._attached = None
        return contrasted(
            shares.gather(rows[:, :3].flatten(1)),
            shares.gather(rows[:, 3:].flatten(1)),
        )

    return against_one_process("ranks", on_rank, whole)


def losses_of_several_passes():
    """The fast rank's memory holds 3 images; 6 take two passes."""
    folder = FOLDER / f"cache{next(FILES)}"
    cache = StepCache(folder)
    for kind, largest in (("fast", 3), ("slow", None)):
        rate = TIMES[kind][1]
        ms = {b: b * rate for b in range(1, (largest or 8) + 1)}
        cache.write("step", ucudnn.torch.StepProfile(kind, ms, largest))
    x, y = inputs(), labels()
    told = {}
    for kind, reduction in (("sum", "sum"), ("items", "mean"), ("ranks", "mean")):
        expected = gradients(
            Tokens(), x, y, lambda m, x, y: token_loss(m(x), y, reduction)
        )
        shares = ucudnn.torch.share(
            BATCH, step=lambda b: 1 / 0, name="step", kind=KIND, cache_dir=folder
        )
        ddp = shares.attach(DistributedDataParallel(Tokens()), loss=kind)
        mine = part_of(shares, y)
        n = torch.ones(())
        if kind == "items":
            n = (mine != -100).sum()
            shares.count(n)
        elif kind == "ranks":
            n = (mine != -100).sum().double()
            dist.all_reduce(n)
            n /= RANKS
        for some, theirs in shares.micro_batches(part_of(shares, x), mine):
            (token_loss(ddp(some), theirs, "sum") / n).backward()
        told[kind] = apart([p.grad for p in ddp.parameters()], expected)
    return {**told, "passes": shares.micro_steps}


def warnings_of(model, loss, kind=None, steps=4, **options):
    """Of `loss` in the first steps."""
    shares = shared()
    ddp = shares.attach(DistributedDataParallel(model, **options), loss=kind)
    x = inputs()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(steps):
            loss(shares, ddp, part_of(shares, x), part_of(shares, labels()))
    return [str(w.message) for w in caught if "attach: loss" in str(w.message)]


def warns_of_other_losses():
    def mean(shares, ddp, x, y):
        loss = token_loss(ddp(x), y.clamp(min=0), "mean")
        loss.backward()
        shares.mean(loss)
        shares.refresh()

    def ignores(shares, ddp, x, y):
        token_loss(ddp(x), y, "mean").backward()

    def divides(shares, ddp, x, y):
        tokens = (y != -100).sum().double()
        dist.all_reduce(tokens)
        (token_loss(ddp(x), y.clamp(min=0), "sum") / tokens).backward()

    def divides_late(shares, ddp, x, y):
        out, tokens = ddp(x), (y != -100).sum().double()
        dist.all_reduce(tokens)
        (token_loss(out, y.clamp(min=0), "sum") / tokens).backward()

    class DividesWithin(Tokens):
        """Its loss is computed in its forward pass."""

        def forward(self, x, y):
            tokens = (y != -100).sum().double()
            dist.all_reduce(tokens)
            return token_loss(super().forward(x), y, "sum") / tokens

    def within(shares, ddp, x, y):
        ddp(x, y).backward()

    def counts(shares, ddp, x, y):
        shares.count((y != -100).sum())
        token_loss(ddp(x), y, "mean").backward()

    # Whose ranks exchange something between steps, whatever the loss.
    sys.modules["pytorch_lightning"] = sys
    lightning = warnings_of(Tokens(), divides)
    del sys.modules["pytorch_lightning"]
    normalised = nn.Sequential(nn.BatchNorm1d(5), Tokens())
    return {
        "lightning": lightning,
        "means": warnings_of(normalised, mean, find_unused_parameters=True),
        "counts": warnings_of(Tokens(), counts),
        "named": warnings_of(Tokens(), ignores, "images")
        + warnings_of(Tokens(), divides, "ranks"),
        "ignores": warnings_of(Tokens(), ignores),
        "divides": warnings_of(Tokens(), divides),
        "divides within": warnings_of(DividesWithin(), within),
        "divides late": warnings_of(Tokens(), divides_late),
    }


def means_by_items():
    shares = shared()
    shares.attach(DistributedDataParallel(Tokens()), loss="images")
    value = torch.tensor(float(RANK))
    return {
        "items": shares.mean(value, 1 + 2 * RANK).item(),
        "ranks": shares.mean(value, 1).item(),
        "refused": refusal(lambda: shares.mean(value, -1)),
        "gathered": shares.gather(torch.full((shares.batch,), RANK)).tolist(),
    }


def statistics_of_the_rank_with_most_images():
    told = {}
    dataset = images()
    few_first = {"fast": TIMES["slow"], "slow": TIMES["fast"]}
    none_first = {"fast": {1: 900.0, 8: 900.0}, "slow": {1: 1.0, 8: 8.0}}
    for name, times, of_ddp in (
        ("few", few_first, {}),
        ("none", none_first, {}),
        ("static", few_first, {"static_graph": True}),
        ("unused", few_first, {"find_unused_parameters": True}),
    ):
        torch.manual_seed(3)
        # Before anything that learns, so that the statistics are the images'.
        model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
        expected = copy.deepcopy(model[0])
        shares = shared(times=times, idle=name == "none")
        ddp = shares.attach(
            DistributedDataParallel(model, **of_ddp), loss="images"
        )
        train(ddp, shares.loader(dataset, shuffle=False))
        first = BATCH - max(shares.batches)
        for x in dataset.tensors[0].split(BATCH):
            expected(x[first:])
        told[name] = {
            "batches": shares.batches,
            "difference": difference(model[0].buffers(), expected.buffers()),
        }
    return told


def compiled_models():
    told = {}
    for way in ("DDP compiled", "compiled in DDP", "compiled before attach"):
        torch._dynamo.reset()
        compilations, compiled_by = [], []

        def loss(model, x, y):
            return F.cross_entropy(model(x)[:, 0], y)

        def backend(graph, inputs):
            compilations.append(graph)
            return graph.forward

        def compiled(module):
            return torch.compile(module, backend=backend)

        inner = Tokens().double()
        whole = copy.deepcopy(inner)
        shares = shared()
        if way == "DDP compiled":
            model = compiled(shares.attach(DistributedDataParallel(inner)))
        elif way == "compiled in DDP":
            model = shares.attach(DistributedDataParallel(compiled(inner)))
        else:
            model = shares.attach(compiled(DistributedDataParallel(inner)))
        # The first steps end what looks at them.
        for steps in (3, 2):
            train(model, loader_of(shares, images(steps)), loss)
            alone(images(steps), model=whole, loss=loss)
            compiled_by.append(len(compilations))
        told[way] = {
            "difference": difference(inner.parameters(), whole.parameters()),
            "compilations": compiled_by,
            "images": refusal(
                lambda: model(torch.zeros(shares.batch + 1, 5).double())
            ),
        }
    return told


class Detector(nn.Module):
    """Takes a list of images of unlike sizes, as models that detect objects."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 4, 3).double()

    def forward(self, images, targets):
        losses = [
            self.conv(image[None]).mean() * target["boxes"].sum()
            for image, target in zip(images, targets)
        ]
        # Of no images, not all parameters.
        return torch.stack(losses).mean() if losses else 0 * self.conv.bias.sum()


def lists_of_images():
    generator = torch.Generator().manual_seed(1)
    items = [
        (
            torch.randn(3, 8 + i, 9, generator=generator).double(),
            {"boxes": torch.ones(i % 3 + 1, 4)},
        )
        for i in range(BATCH)
    ]

    def collated(items):
        return [x for x, _ in items], [y for _, y in items]

    expected = Detector()
    expected(*collated(items)).backward()
    told = {}
    for name, options in (
        ("both", {}),
        ("idle", {"times": {"fast": {8: 1.0}, "slow": {8: 90.0}}, "idle": True}),
    ):
        shares = shared(**options)
        ddp = shares.attach(
            DistributedDataParallel(Detector()),
            images=lambda images, targets: len(images),
        )
        (batch,) = shares.loader(items, shuffle=False, collate_fn=collated)
        for some, targets in shares.micro_batches(*batch):
            ddp(some, targets).backward()
        told[name] = {
            "images": len(batch[0]),
            "difference": difference(
                [p.grad for p in ddp.parameters()],
                [p.grad for p in expected.parameters()],
            ),
        }
    unlike = shared()
    ddp = unlike.attach(DistributedDataParallel(Detector()))
    told["refused"] = refusal(
        lambda: ddp(*collated(items[: unlike.batch + (unlike.batch == 3)]))
    )
    return told


def refuses_other_passes():
    shares = shared()
    model = nn.Linear(5, 3)
    ddp = shares.attach(DistributedDataParallel(model))
    other = shared()
    described = other.attach(
        DistributedDataParallel(nn.Linear(5, 3)), images=lambda x: x.sum()
    )
    return {
        "twice": refusal(lambda: ddp(torch.ones(2 * shares.batch, 5))),
        "none": refusal(lambda: ddp(torch.ones(0, 5))),
        "nothing": refusal(lambda: ddp(object())),
        "no number": refusal(lambda: described(torch.ones(shares.batch, 5))),
        "labels": refusal(
            lambda: list(
                shares.micro_batches(
                    torch.ones(shares.batch, 5), torch.ones(BATCH + 1)
                )
            )
        ),
    }


def refuses_other_losses():
    x = torch.ones(BATCH, 5)

    def attached(loss=None, **options):
        shares = shared(**options)
        model = nn.Linear(5, 3)
        shares.attach(DistributedDataParallel(model), loss=loss)
        return shares

    def delayed():
        model = nn.Linear(5, 3)
        shared().attach(
            DistributedDataParallel(
                model,
                delay_all_reduce_named_params=[("bias", model.bias)],
                param_to_hook_all_reduce=model.weight,
            )
        )

    def images_when_idle():
        shares = attached(
            loss="ranks", times={"fast": {8: 1.0}, "slow": {8: 90.0}}, idle=True
        )
        shares._attached.ddp(x)

    def uncounted():
        shares = attached(loss="items")
        shares._attached.ddp(part_of(shares, x)).mean().backward()

    return {
        "unknown": refusal(lambda: attached(loss="mean")),
        "counted": refusal(lambda: attached(loss="ranks").count(1)),
        "gathered": refusal(
            lambda: attached().gather(x.clone().requires_grad_())
        ),
        "idle": refusal(images_when_idle),
        "rows": refusal(lambda: attached(loss="ranks").gather(x)),
        "several": refusal(lambda: attached().count([1, 2])),
        "negative": refusal(lambda: attached().count(-1)),
        "delayed": refusal(delayed),
        "uncounted": refusal(uncounted),
    }


SCENARIOS = [
    a_mean_over_images,
    a_sum_over_images,
    a_mean_over_labelled_tokens,
    a_loss_normalised_over_all_ranks,
    a_loss_on_the_rows_of_all_ranks,
    losses_of_several_passes,
    warns_of_other_losses,
    means_by_items,
    statistics_of_the_rank_with_most_images,
    compiled_models,
    lists_of_images,
    refuses_other_passes,
    refuses_other_losses,
]


if __name__ == "__main__":
    run(SCENARIOS)
