"""The source of CUDA kernels that compute element-wise recipes in one pass."""

from __future__ import annotations

import math
from typing import Sequence

import torch

from ucudnn.torch.kernels import ELEMENTS, VECTOR_BYTES

THREADS = 256
# Of each multiprocessor, where threads keep their channels' parameters.
_BLOCKS = 6
# How a normalization is rounded: by cuDNN channels last, by PyTorch and cuDNN
# channels first, and by cuDNN for small images channels first.
NORMALS = (
    "__fmaf_rn(x - c.mean, c.scale, c.shift)",
    "__fmaf_rn(c.weight * (x - c.mean), c.invstd, c.shift)",
    "__fmaf_rn(x, c.scale, __fsub_rn(c.shift, __fmul_rn(c.mean, c.scale)))",
)
_BEGINNING = """
typedef {index} Index;
typedef {weight} Weight;  // also of biases
struct alignas({bytes}) Pack {{ Element at[{width}]; }};
struct Channel {{ float weight, shift, mean, invstd, scale; }};

{elements}

// What is rounded once in PyTorch is rounded here.
__device__ float kept(float x) {{ return wide(narrow(x)); }}

__device__ Channel channel_of(const Weight* weight, const Weight* bias,
                              const float* mean, const float* invstd,
                              unsigned c) {{
  const float w = {read}(weight[c]);
  return {{w, {read}(bias[c]), mean[c], invstd[c], w * invstd[c]}};
}}

__device__ float normal(float x, Channel c) {{ return {normal}; }}

__device__ Element value({values}) {{
{steps}
  return narrow({last});
}}

__device__ Pack load(const Element* from, Index i, Index count) {{
  if (i + {width} <= count) return *(const Pack*)(from + i);
  Pack pack;
  for (int k = 0; k < {width}; ++k) pack.at[k] = from[i + k < count ? i + k : i];
  return pack;
}}

__device__ void store(Element* to, Pack pack, Index i, Index count) {{
  if (i + {width} <= count) {{
    *(Pack*)(to + i) = pack;
    return;
  }}
  for (int k = 0; i + k < count; ++k) to[i + k] = pack.at[k];
}}

extern "C" __global__ void __launch_bounds__({threads}) again(
    Element* out, unsigned long long elements, unsigned long long channels,
    unsigned long long plane{parameters}) {{
  const Index count = elements;
  const Index step = (Index)gridDim.x * {threads} * {width};
  Index i = ((Index)blockIdx.x * {threads} + threadIdx.x) * {width};
"""
# The step is a multiple of the channels, so each thread has the same ones always.
_CHANNELS_LAST = """
{channels}
  for (int k = 0; k < {width}; ++k) {{
    const unsigned c = (i + k) % (unsigned)channels;
{set_channels}
  }}
  for (; i + step + {width} <= count; i += 2 * step) {{
{load_two}
    Pack result[2];
    for (int u = 0; u < 2; ++u)
      for (int k = 0; k < {width}; ++k)
        result[u].at[k] = value({of_two});
    *(Pack*)(out + i) = result[0];
    *(Pack*)(out + i + step) = result[1];
  }}
  for (; i < count; i += step) {{
{load}
    Pack result;
    for (int k = 0; k < {width}; ++k) result.at[k] = value({of_one});
    store(out, result, i, count);
  }}
}}
"""
_CHANNELS_FIRST = """
  for (; i < count; i += step) {{
    const Index row = i / (Index)plane;
    Index left = (row + 1) * (Index)plane - i;  // in this plane
    unsigned c = row % (unsigned)channels;
{channels}
{load}
    Pack result;
    for (int k = 0; k < {width}; ++k) {{
      if (k == 0 || ({wraps} && left == 0)) {{
        if (k != 0) {{
          left = plane;
          c = c + 1 == channels ? 0 : c + 1;
        }}
{set_channels}
      }}
      --left;
      result.at[k] = value({of_one});
    }}
    store(out, result, i, count);
  }}
}}
"""


def blocks_of(
    elements: int, width: int, channels: int, plane: int, multiprocessors: int
) -> int:
    """Of threads with `width` elements each; channels last, as many that all
    together step over whole pixels."""
    needed = -(-elements // (THREADS * width))
    if plane != 1:
        return needed
    period = channels // math.gcd(channels, THREADS * width)
    return -(-min(needed, _BLOCKS * multiprocessors) // period) * period


def source_of(
    statements: Sequence[str],
    last: str,
    inputs: int,
    normalizations: int,
    normal: str,
    dtype: torch.dtype,
    narrow_weights: bool,
    plane: int,
    long: bool,
) -> str:
    """Of a kernel `again`, which runs the statements on the elements x0, x1, ...
    of `inputs` tensors of one type and order, and on their channels' parameters
    n0, n1, ...; `last` is the result's name, `normal` one of NORMALS. Weights are float32, or
    `narrow_weights` of the elements' type. `plane` elements of a channel lie side by
    side. `long`: 32 bits do not count the elements."""
    element, conversions = ELEMENTS[dtype]
    width = VECTOR_BYTES // dtype.itemsize
    xs = range(inputs)
    ns = range(normalizations)
    last_ones = plane == 1
    at = "[k]" if last_ones else ""
    names = {"weight": "Weight", "bias": "Weight", "mean": "float", "invstd": "float"}
    texts = {
        "index": "unsigned long long" if long else "unsigned",
        "normal": normal,
        "weight": "Element" if narrow_weights else "float",
        "read": "wide" if narrow_weights else "",
        "bytes": VECTOR_BYTES,
        "width": width,
        "threads": THREADS,
        "elements": conversions,
        "values": ", ".join(
            [f"float x{i}" for i in xs] + [f"Channel n{i}" for i in ns]
        ),
        "steps": "\n".join(f"  {one}" for one in statements),
        "last": last,
        "parameters": "".join(
            [f", const Element* x{i}" for i in xs]
            + [f", const {t}* {name}{i}" for i in ns for name, t in names.items()]
        ),
        "channels": "\n".join(
            f"    Channel n{i}{f'[{width}]' if last_ones else ''};" for i in ns
        ),
        "set_channels": "\n".join(
            f"        n{i}{at} = channel_of("
            + ", ".join(f"{name}{i}" for name in names)
            + ", c);"
            for i in ns
        ),
        "load": "\n".join(
            f"    const Pack p{i} = load(x{i}, i, count);" for i in xs
        ),
        "load_two": "\n".join(
            f"    const Pack p{i}[2] = {{*(const Pack*)(x{i} + i), "
            f"*(const Pack*)(x{i} + i + step)}};"
            for i in xs
        ),
        "of_one": ", ".join(
            [f"wide(p{i}.at[k])" for i in xs] + [f"n{i}{at}" for i in ns]
        ),
        "of_two": ", ".join(
            [f"wide(p{i}[u].at[k])" for i in xs] + [f"n{i}[k]" for i in ns]
        ),
        "wraps": int(plane % width != 0),
    }
    ending = _CHANNELS_LAST if last_ones else _CHANNELS_FIRST
    return f"typedef {element} Element;" + (_BEGINNING + ending).format(**texts)
