"""What the programs that measure ucudnn.torch share."""

import argparse
import json
import os


# No operation's planning begins after so many seconds of a converted model's.
PLANNING_SECONDS = float(os.environ.get("UCUDNN_PLANNING_SECONDS", "10"))


# --- Programs that start others and report.

def arguments_of(text, sections, rows, seconds):
    """The output folder, the seconds, and the parts in order: sections, and rows,
    which "rows" stands for all of."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("parts", nargs="*", metavar="SECTION or ROW")
    arguments = parser.parse_args()
    parts = []
    for part in arguments.parts or sections:
        if part not in sections and part.count(":") != 2:
            parser.error(f"{part}: {', '.join(sections)} or "
                         "NETWORK:BATCH:PRECISION")
        parts += rows if part == "rows" else [part]
    os.makedirs(arguments.output, exist_ok=True)
    return arguments.output, arguments.seconds, list(dict.fromkeys(parts))


def write(told, path):
    """As JSON. Whoever reads it may end this process meanwhile."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(told, file)
    os.replace(path + ".new", path)


def report(told, output, name, lines_of):
    """Writes what was told so far, and as Markdown."""
    path = os.path.join(output, name)
    write(told, path + ".json")
    with open(path + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines_of(told)) + "\n")


def exit_status(failed, missed, unfinished):
    return 1 if failed else 4 if missed else 3 if unfinished else 0


# --- Programs that run on the GPU; the others need no torch.

def laps(step, count):
    """Milliseconds of each step."""
    import torch
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def peak_of(step):
    """The most bytes allocated during a step."""
    import torch
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def warm_up(step):
    """A few steps on a stream of their own, as before capturing a CUDA graph."""
    import torch
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)


def distance(some, others):
    """Of two gradients, relative to their length."""
    squares = sum(float((a.double() - b.double()).square().sum())
                  for a, b in zip(some, others))
    whole = sum(float(b.double().square().sum()) for b in others)
    return (squares / whole) ** 0.5


class Training:
    """One of torchvision's networks on random images; FP32 and TF32 are NCHW, HALF
    is autocast and channels last."""

    def __init__(self, text, image=224, cached_casts=True, **optimizer):
        import torch
        import torchvision
        self.torch = torch
        self.name, batch, self.precision = text.split(":")
        self.half = self.precision == "HALF"
        self.cached_casts = cached_casts
        tf32 = self.precision == "TF32"
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.manual_seed(1)
        layout = torch.channels_last if self.half else torch.contiguous_format
        self.model = getattr(torchvision.models, self.name)().to(
            "cuda", memory_format=layout)
        self.images = torch.randn(
            int(batch), 3, image, image, device="cuda").contiguous(
                memory_format=layout)
        self.labels = torch.randint(0, 1000, (int(batch),), device="cuda")
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-4, **optimizer)

    def autocast(self):
        return self.torch.autocast(
            "cuda", self.torch.float16, enabled=self.half,
            cache_enabled=self.cached_casts)

    def loss(self, forward=None):
        with self.autocast():
            return self.torch.nn.functional.cross_entropy(
                (self.model if forward is None else forward)(self.images).float(),
                self.labels)

