#!/usr/bin/env python3
"""Measures shares with budgets of memory on two GPUs: ResNet-50, bf16, on a whole GPU
and on a slice of 32 multiprocessors of another.

    tests/gpu/torch_share_budgets.py -o DIR [--seconds N] [WAY...]

The mini-batch (320) is such that the faster rank's share by speed needs about twice its
budget (6 GiB, and 4 GiB for the slice). Ways, each two processes under DDP and NCCL:
    planned   ucudnn.torch.share(model=..., budget=...): one solution for both
    even      half of the mini-batch each, compiled within the budgets
    clipped   the faster rank gets what its budget holds without a plan, the other the
              rest, within its budget
    passes    the planned shares by torch.compile, in as many passes as the budget holds
Writes DIR/torch-share-budgets.json after each way and .md; ways that the JSON has
already are not run again, so the same command resumes. Begins no way that may not end
within N seconds (470; the first may take 460, the others 150). Needs torchvision; PYTHONPATH and UCUDNN_LIBRARY name the package.

Exit status: 0 done; 1 something failed; 3 the time was up; 4 a goal was missed.
"""

import argparse
import datetime
import json
import logging
import os
import statistics
import subprocess
import sys
import time

from torch_common import exit_status, laps, report, write

WAYS = ("planned", "even", "clipped", "passes")
LIMITS = {"planned": 460, "even": 150, "clipped": 150, "passes": 150}  # seconds
BATCH = 320
SLICE = 32
BUDGETS = {"whole": 6 << 30, "slice": 4 << 30}
KINDS = list(BUDGETS)
MOST_STEPS = 80
NAME = "torch-share-budgets"


# --- One rank.

class Rank:
    def __init__(self, rank, told):
        import torch
        import torchvision
        self.torch, self.rank, self.told = torch, rank, told
        self.budget = BUDGETS[KINDS[rank]]
        torch.manual_seed(1)
        self.model = torchvision.models.resnet50().to(
            "cuda", memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-3, momentum=0.9)
        self.images = torch.randn(BATCH, 3, 224, 224, device="cuda").contiguous(
            memory_format=torch.channels_last)
        self.labels = torch.randint(0, 1000, (BATCH,), device="cuda")

    def loss(self, model, batch):
        with self.torch.autocast("cuda", self.torch.bfloat16):
            scores = model(self.images[:batch])
        return self.torch.nn.functional.cross_entropy(
            scores.float(), self.labels[:batch])

    def step(self, ddp, batch, passes=1):
        self.optimizer.zero_grad()
        for last in range(1 - passes, 1):
            with ddp.no_sync() if last else self.torch.enable_grad():
                self.loss(ddp, batch // passes).backward()
        self.optimizer.step()

    def train(self, ddp, batch, compiled=None, passes=1):
        """Steps until the plan is settled on both ranks, and then those that count."""
        import torch.distributed as dist
        import ucudnn.torch
        torch = self.torch
        settled = torch.zeros(1, device="cuda")
        for steps in range(MOST_STEPS):
            self.step(ddp, batch, passes)
            settled.fill_(float(
                compiled is None or ucudnn.torch.plan_of(compiled).settled))
            dist.all_reduce(settled)
            if steps >= 5 and settled.item() == dist.get_world_size():
                break
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        times = laps(lambda: self.step(ddp, batch, passes), 15)
        self.told.update(
            batch=batch, passes=passes, ms=statistics.median(times), steps_ms=times,
            peak=torch.cuda.max_memory_allocated(), warm_steps=steps + 1)
        if compiled is not None:
            plan = ucudnn.torch.plan_of(compiled)
            state = torch.cuda.memory_allocated()
            rate = (plan.plain_peak_bytes - state) / batch
            self.told.update(
                budget=self.budget, plan=str(plan), settled=plan.settled,
                recomputed=len(plan.recomputed), plan_ms=plan.predicted_ms,
                predicted_peak=plan.predicted_peak_bytes,
                plain_fits=int((self.budget - state) / rate))

    def planned(self, _):
        import ucudnn.torch
        from torch.nn.parallel import DistributedDataParallel
        begun = time.monotonic()
        shares = ucudnn.torch.share(
            BATCH, model=self.model, loss=self.loss, optimizer=self.optimizer,
            budget=BUDGETS, kind=KINDS[self.rank])
        own = shares._plan.ranks
        self.told.update(
            seconds=time.monotonic() - begun, batches=shares.batches,
            predicted_ms=shares.predicted_ms, bound_ms=shares.bound_ms,
            reasons=shares.reasons, ranks_ms=[share.ms for share in own],
            tables=[t.ms for t in shares._source._steps.ranks],
            largest=[t.largest for t in shares._source._steps.ranks])
        write(self.told, self.told["path"])
        ddp = shares.attach(DistributedDataParallel(shares.model), loss="images")
        self.train(ddp, shares.batch, shares.model)
        self.told["own_ms"] = shares._attached.own_time.take_ms()[-5:]

    def within_budgets(self, batch):
        import ucudnn.torch
        from torch.nn.parallel import DistributedDataParallel
        compiled = ucudnn.torch.compile(self.model, budget=self.budget)
        self.train(DistributedDataParallel(compiled), batch, compiled)

    def even(self, _):
        self.within_budgets(BATCH // 2)

    def clipped(self, planned):
        most = min(planned[0]["plain_fits"], planned[0]["batch"])
        self.within_budgets((most, BATCH - most)[self.rank])

    def passes(self, planned):
        from torch.nn.parallel import DistributedDataParallel
        mine = planned[self.rank]
        passes = -(-mine["batch"] // mine["plain_fits"])
        ddp = DistributedDataParallel(self.torch.compile(self.model, dynamic=False))
        self.train(ddp, mine["batch"] // passes * passes, passes=passes)


def run_rank(way, rank, folder, path):
    import torch
    import torch.distributed as dist
    logging.basicConfig(level=logging.INFO, stream=sys.stdout,
                        format="%(asctime)s %(message)s")
    logging.getLogger("ucudnn").setLevel(logging.DEBUG)
    torch.backends.cudnn.benchmark = True
    torch.cuda.set_device(rank)
    context = None
    if rank == 1:
        from torch.cuda.green_contexts import GreenContext
        context = GreenContext.create(num_sms=SLICE, device_id=rank)
        torch.cuda.set_stream(context.Stream())
    dist.init_process_group(
        "nccl", init_method=f"file://{folder}/{way}-rendezvous", rank=rank,
        world_size=2, timeout=datetime.timedelta(seconds=LIMITS[way]))
    with open(path, encoding="utf-8") as file:
        planned = json.load(file).get("planned")
    answer = os.path.join(folder, f"{way}-{rank}.json")
    told = {"path": answer, "device": torch.cuda.get_device_name()}
    one = Rank(rank, told)
    try:
        getattr(one, way)(planned)
    except Exception as error:
        import traceback
        traceback.print_exc()
        told.update(failed=f"{type(error).__name__}: {error}"[:2000],
                    least=getattr(error, "least", None))
    write(told, answer)
    sys.stdout.flush()
    os._exit(0)


# --- Elsewhere.

def run_way(way, folder, path):
    """Both ranks' answers; failed ones with what they printed."""
    processes, logs = [], []
    for name in os.listdir(folder):
        if name.startswith(f"{way}-"):
            os.remove(os.path.join(folder, name))
    for rank in range(2):
        logs.append(os.path.join(folder, f"{way}-{rank}.log"))
        with open(logs[-1], "w", encoding="utf-8") as file:
            processes.append(subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "-o", folder, "--rank", way,
                 str(rank), path], stdout=file, stderr=subprocess.STDOUT))
    ends = time.monotonic() + LIMITS[way]
    while any(p.poll() is None for p in processes) and time.monotonic() < ends:
        answers = [os.path.join(folder, f"{way}-{rank}.json") for rank in range(2)]
        if any(p.poll() is not None and "ms" not in read(a)
               for p, a in zip(processes, answers)):
            ends = min(ends, time.monotonic() + 10)  # the other one waits
        time.sleep(0.5)
    for process in processes:
        process.kill()
        process.wait()
    told = [read(os.path.join(folder, f"{way}-{rank}.json")) for rank in range(2)]
    for one, log in zip(told, logs):
        if "ms" not in one:
            one.setdefault("failed", "ended without an answer")
            with open(log, encoding="utf-8") as file:
                one["output"] = file.read()[-3000:]
    return told


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def done(told, way):
    return way in told and all("ms" in rank for rank in told[way])


def step_ms(ranks):
    return max(rank["ms"] for rank in ranks)


def rate(ranks):
    """Images a second."""
    return sum(rank["batch"] for rank in ranks) / step_ms(ranks) * 1e3


def goals_of(told):
    if not done(told, "planned"):
        return
    ranks = told["planned"]
    first = ranks[0]
    off = first["predicted_ms"] / step_ms(ranks) - 1
    yield f"the step is predicted within {off:+.3f} of 0.05", abs(off) <= 0.05
    for rank, one in enumerate(ranks):
        yield (f"rank {rank}: peak {one['peak'] / 2**30:.2f} of "
               f"{one['budget'] / 2**30:.0f} GiB", one["peak"] <= one["budget"])
    alone = sum(b / ms * 1e3 for b, ms in zip(first["batches"], first["ranks_ms"]))
    part = rate(ranks) / alone
    yield (f"{part:.3f} of the sum of the single ranks' planned throughputs",
           part >= 0.95)
    for way in ("even", "clipped"):
        if done(told, way):
            times = rate(ranks) / rate(told[way])
            yield f"{times:.2f} times as fast as {way} shares", times >= 1


def lines_of(told):
    yield "| way | images | passes | ms | images/s | of planned | GiB | recomputed |"
    yield "|---|---|---|---|---|---|---|---|"
    for way in WAYS:
        if not done(told, way):
            if way in told:
                yield f"| {way} | {[r.get('failed', '')[:150] for r in told[way]]} |"
            continue
        ranks = told[way]
        part = (f"{rate(ranks) / rate(told['planned']):.3f}"
                if done(told, "planned") else "")
        def both(name, ranks=ranks, form="{}"):
            return " + ".join(form.format(r.get(name, "")) for r in ranks)
        peaks = " + ".join(f"{r['peak'] / 2**30:.2f}" for r in ranks)
        yield (f"| {way} | {both('batch')} | {both('passes')} | {step_ms(ranks):.1f} | "
               f"{rate(ranks):.0f} | {part} | {peaks} | {both('recomputed')} |")
    if done(told, "planned"):
        first = told["planned"][0]
        yield (f"\nPlanned: predicted {first['predicted_ms']:.1f} ms, bound "
               f"{first['bound_ms']:.1f} ms, in {first['seconds']:.0f} s; by rank "
               f"{[round(ms, 1) for ms in first['ranks_ms']]} ms on {first['device']}\n")
        yield from (f"- {reason}" for reason in first["reasons"])
    yield ""
    for text, reached in goals_of(told):
        yield f"- {text}{'' if reached else ': MISSED'}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--seconds", type=float, default=470)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("ways", nargs="*", metavar="WAY")
    arguments = parser.parse_args()
    output = os.path.abspath(arguments.output)
    if arguments.rank:
        way, rank, path = arguments.rank
        run_rank(way, int(rank), output, path)
    ways = arguments.ways or WAYS
    for way in ways:
        if way not in WAYS:
            parser.error(f"{way}: {', '.join(WAYS)}")
    path = os.path.join(output, f"{NAME}.json")
    folder = os.path.join(output, NAME)
    os.makedirs(folder, exist_ok=True)
    os.environ.setdefault("UCUDNN_CACHE_DIR", os.path.join(folder, "cache"))
    told = read(path)
    write(told, path)
    begun = time.monotonic()
    for way in ways:
        needs = way in ("clipped", "passes") and not done(told, "planned")
        late = time.monotonic() - begun + LIMITS[way] > arguments.seconds
        if done(told, way) or needs or late:
            continue
        print(f"== {way}", flush=True)
        told[way] = run_way(way, folder, path)
        report(told, output, NAME, lines_of)
    print("\n".join(lines_of(told)))
    report(told, output, NAME, lines_of)
    return exit_status(
        any(not done(told, way) for way in ways if way in told),
        any(not reached for _, reached in goals_of(told)),
        any(way not in told for way in ways))


if __name__ == "__main__":
    sys.exit(main())
