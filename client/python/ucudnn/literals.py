"""The names that functions accept, for type checkers and editors."""

from __future__ import annotations

from typing import Literal

BatchPolicy = Literal["all", "powerOfTwo", "undivided", "adaptive"]
Operation = Literal["forward", "backward_data", "backward_filter"]
Precision = Literal["FP32", "TF32", "TRUE_HALF", "PSEUDO_HALF", "BF16"]
Layout = Literal["NCHW", "NHWC"]
MemoryPolicy = Literal[
    "baseline", "vdnn-all", "vdnn-all-m", "vdnn-all-p", "vdnn-conv", "vdnn-conv-m",
    "vdnn-conv-p", "vdnn-dyn", "vdnn-ext", "vdnn-ext-all-m", "vdnn-ext-all-p",
    "vdnn-ext-conv-m", "vdnn-ext-conv-p", "hmms", "modnn", "best", "all",
]  # fmt: skip
Allocator = Literal["policy", "static"]
Fusion = Literal["none", "paper"]
