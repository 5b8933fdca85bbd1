"""Solves what the papers' figures ask, for the page docs/papers.md.

    python3 tests/docs/papers_solve.py BIN/ucudnn SOLVED.csv

From the repository's root; takes some minutes of one core. Writes a row for each
number: its name, the value, and the command it is from. Convolutions' times are
those of tests/data/h200, memory plans are predictions of device models. AlexNet's
conv2 goes without Winograd, which is too inaccurate on 5x5 filters for programs
to get (ADR 9).
"""

import csv
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

H200 = pathlib.Path("tests/data/h200")
POWERS = ("undivided", "powerOfTwo")


def rows_of(name):
    opened = gzip.open if name.endswith(".gz") else open
    with opened(H200 / name, "rt") as file:
        return list(csv.DictReader(file))


class Book:
    """The numbers, as they are solved."""

    def __init__(self, program, folder):
        self.program, self.folder, self.rows = program, pathlib.Path(folder), []

    def exact(self, name):
        """A profile of tests/data/h200 without what programs do not get."""
        kept = [r for r in rows_of(name)
                if (r["network"], r["layer"], r["algorithm"])
                != ("alexnet", "conv2", "WINOGRAD_NONFUSED")]
        path = self.folder / name.removesuffix(".gz")
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, kept[0])
            writer.writeheader()
            writer.writerows(kept)
        return str(path)

    def add(self, name, value, command):
        self.rows.append((name, f"{value:.10g}", command))
        print(*self.rows[-1], sep=",", flush=True)

    def solve(self, problem, **options):
        """The answer, None where there is no plan; and the command, readable."""
        words = [problem]
        for option, value in options.items():
            words += [f"--{option.replace('_', '-')}", str(value)]
        done = subprocess.run([self.program, "solve", *words, "-o", "json"],
                              capture_output=True, text=True)
        shown = " ".join(["ucudnn solve", *words]).replace(f"{self.folder}/", "")
        if done.returncode:
            print(shown, done.stderr.strip(), file=sys.stderr)
        return json.loads(done.stdout) if not done.returncode else None, shown


def reuse(book, name, profile, batch, limits, policies, **more):
    """WR: the time, the workspaces together, and the kernels that gain."""
    for limit in limits:
        for policy in policies:
            plan, command = book.solve(
                "wr", profile=profile, batch=batch, workspace_limit=f"{limit}MiB",
                batch_policy=policy, precision="FP32", **more)
            about = f"wr {name} {limit} {policy}"
            book.add(f"{about} ms", plan["total_time_us"] / 1000, command)
            book.add(f"{about} MiB", plan["total_workspace_bytes"] / 2**20, command)
            book.add(f"{about} divided",
                     sum(sum(m["count"] for m in k["micro_batches"]) > 1
                         for k in plan["kernels"]), command)


def division(book, name, profile, batch, totals):
    for total in totals:
        plan, command = book.solve(
            "wd", profile=profile, batch=batch, workspace_limit=f"{total}MiB",
            batch_policy="powerOfTwo", precision="FP32")
        book.add(f"wd {name} {total} ms", plan["total_time_us"] / 1000, command)
        sizes = {}
        for kernel in plan["kernels"]:
            size = kernel["workspace_bytes"] / 2**20
            sizes[kernel["layer"]] = sizes.get(kernel["layer"], 0) + size
        if name == "alexnet":
            for layer, size in sizes.items():
                book.add(f"wd {name} {total} {layer} MiB", size, command)


def micro_batches(book):
    alexnet = book.exact("alexnet_b256_pow2.csv")
    every = book.exact("alexnet_conv2-5_b256_all_fp32.csv.gz")
    resnet18 = book.exact("resnet18_b128_pow2.csv.gz")
    resnet50 = book.exact("resnet50_b32_pow2.csv.gz")
    reuse(book, "alexnet", alexnet, 256, (8, 64, 512), POWERS)
    reuse(book, "conv2-5", every, 256, (8, 64, 512), (*POWERS, "all"))
    reuse(book, "conv2 forward", every, 256, (64, 120), (*POWERS, "all"),
          layer="conv2", op="forward")
    reuse(book, "conv2 forward with Winograd",
          H200 / "alexnet_conv2-5_b256_all_fp32.csv.gz", 256, (64,),
          (*POWERS, "all"), layer="conv2", op="forward")
    reuse(book, "resnet18", resnet18, 128, (8, 64, 512), POWERS)
    reuse(book, "resnet50", resnet50, 32, (8, 16, 32), POWERS)
    division(book, "alexnet", alexnet, 256, (120, 960))
    division(book, "resnet50", resnet50, 32, (1272, 2544, 5088))
    most, fronts = 0, ""
    for layer in ("conv2", "conv3", "conv4", "conv5"):
        for op in ("forward", "backward_data", "backward_filter"):
            answer, command = book.solve(
                "pareto", profile=every, batch=256, workspace_limit="512MiB",
                precision="FP32", layer=layer, op=op)
            if len(answer["front"]) > most:
                most, fronts = len(answer["front"]), command
    book.add("front most points", most, fronts)
    answer, command = book.solve(
        "pareto", profile=every, batch=256, workspace_limit="120MiB",
        precision="FP32", layer="conv2", op="forward")
    book.add("front conv2 forward points", len(answer["front"]), command)
    for layer in ("conv1", "conv2", "conv3", "conv4", "conv5"):
        times = {}  # of the whole batch, by algorithm and workspace
        for r in rows_of("alexnet_b256_pow2.csv"):
            if (r["layer"], r["op"], r["precision"], r["batch"]) == (
                    layer, "forward", "FP32", "256"):
                point = (r["algorithm"], int(r["workspace_bytes"]))
                if (layer, r["algorithm"]) != ("conv2", "WINOGRAD_NONFUSED"):
                    times.setdefault(point, []).append(float(r["time_us"]))
        points = [(sorted(t)[len(t) // 2], p[1]) for p, t in times.items()]
        best, bytes_ = min(points)
        less = min([t for t, size in points if size < bytes_], default=best)
        book.add(f"one byte less {layer}", less / best, "alexnet_b256_pow2.csv")


def slices(book):
    """Unlike devices: slices of an H200, as batches of a multiple of 16 take."""
    path = book.folder / "times.csv"
    times = {}
    for sms in (64, 32, 16):
        profile = book.exact(f"alexnet_b256_pow2_sm{sms}.csv")
        for batch in range(16, 257, 16):
            plan, _ = book.solve("wr", profile=profile, batch=batch,
                                 workspace_limit="64MiB", precision="FP32",
                                 batch_policy="powerOfTwo")
            times[sms, batch] = plan["total_time_us"]
    for group in ((64, 32), (64, 64, 32), (64, 64, 32, 16)):
        lines = [f"{i},{batch},{time}" for i, sms in enumerate(group)
                 for (of, batch), time in times.items() if of == sms]
        path.write_text("\n".join(["gpu,batch,time_us", *lines]) + "\n")
        answer, command = book.solve("assign", times=path, batch=256)
        about, slowest = f"slices {'+'.join(map(str, group))}", answer["makespan_us"]
        book.add(f"{about} gain", times[64, 256] / slowest, command)
        for i, gpu in enumerate(answer["gpus"]):
            book.add(f"{about} batch {i}", gpu["batch"], command)
        if answer["even_split_us"]:
            book.add(f"{about} even", answer["even_split_us"] / slowest, command)


def memory(book, name, network, batch, device, policy, **more):
    plan, command = book.solve(
        "memory", network=f"tests/data/{network}", batch=batch,
        device_model=device, policy=policy, **{"budget": "1000GB", **more})
    for key, unit in (("time_us", 1000), ("load_bytes", 2**20), ("ideal_time_us", 1000),
                      ("ideal_bytes", 2**20), ("stall_us", 1000)):
        if plan and plan.get(key) is not None:
            book.add(f"{name} {key.rsplit('_', 1)[0]}", plan[key] / unit, command)


def memory_plans(book):
    for policy in ("vdnn-all-p", "vdnn-ext-all-p", "vdnn-all-m", "vdnn-ext-all-m",
                   "vdnn-conv-p", "vdnn-conv-m", "vdnn-dyn", "baseline"):
        for model, batch in (("alexnet", 128), ("vgg16", 16)):
            memory(book, f"gtx970 {model} {policy}", f"onnx/{model}.onnx", batch,
                   "GTX970", policy)
        for model in ("alexnet", "vgg16"):
            memory(book, f"titanx {model} {policy}", f"onnx/{model}.onnx", 128,
                   "TITANX", policy)
    for policy in ("vdnn-all-p", "vdnn-ext-all-p"):
        memory(book, f"titanx vgg16-64 {policy}", "onnx/vgg16.onnx", 64, "TITANX",
               policy)
    for model in ("vgg16", "resnet50", "resnet152"):
        memory(book, f"k40 {model} offloading alone", f"onnx/{model}.onnx", 256, "K40",
               "vdnn-all-m", fuse="paper")
    for model, batch, profile in (("vgg16", 64, "vgg16_b64_pow2"),
                                  ("resnet50", 32, "resnet50_b32_pow2"),
                                  ("resnet18", 128, "resnet18_b128_pow2")):
        for size in (batch, 1):
            memory(book, f"h200 {model} sub-batch {'whole' if size > 1 else size}",
                   f"onnx/{model}.onnx", batch, "H200", "modnn", sub_batch=size,
                   profile=H200 / f"{profile}.csv.gz")


def deepbench(book):
    """By the filters' size, which the measured rows do not have."""
    with open("tests/data/deepbench_conv_training.csv") as file:
        sizes = {r["name"]: f"{r['R']}x{r['S']}" for r in csv.DictReader(file)}
    path = "docs/results/h200-figures-2026-11-22/deepbench.json.gz"
    for size in ("3x3", "5x5"):
        gains = [r["undivided_legacy_us"] / r["planned_legacy_us"]
                 for r in json.loads(gzip.decompress(pathlib.Path(path).read_bytes()))
                 if r["precision"] == "PSEUDO_HALF" and sizes[r["layer"]] == size]
        book.add(f"deepbench half {size} mean", sum(gains) / len(gains), path)


def main():
    program, output = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        book = Book(program, folder)
        micro_batches(book)
        slices(book)
        memory_plans(book)
        deepbench(book)
    with open(output, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "value", "command"))
        writer.writerows(book.rows)


if __name__ == "__main__":
    main()
