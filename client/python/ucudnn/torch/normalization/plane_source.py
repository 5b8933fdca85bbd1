"""The source of CUDA kernels for a batch normalization channels first, with the sum
and the ReLU behind it: two for each pass, since both need sums over a channel."""

from __future__ import annotations

import math

import torch

from ucudnn.torch.kernels import ELEMENTS, VECTOR_BYTES

THREADS = 256
# Each block has a part of one channel: some packs of elements, numbered over the
# channel's planes in all images. A second kernel's blocks go through their parts the
# other way round: what the first one read last is still in the L2 cache.
_SOURCE = """
typedef {element} Element;
struct alignas({bytes}) Pack {{ Element at[{width}]; }};

{conversions}

struct Part {{
  unsigned channel, begin, end;  // packs
  bool first;
}};

// Of channels * parts blocks.
__device__ Part part_of(unsigned packs, unsigned parts) {{
  const unsigned part = blockIdx.x % parts;
  return {{blockIdx.x / parts,
          (unsigned)((unsigned long long)packs * part / parts),
          (unsigned)((unsigned long long)packs * (part + 1) / parts),
          part == 0}};
}}

// Where a pack of a channel is among those of the tensor.
__device__ unsigned long long place(unsigned pack, unsigned channel,
                                    unsigned channels, unsigned plane) {{
  const unsigned image = pack / plane;
  return ((unsigned long long)image * channels + channel) * plane +
         (pack - image * plane);
}}

__device__ float normal(float x, float weight, float bias, float mean,
                        float inverse) {{
  return __fmaf_rn(weight * (x - mean), inverse, bias);
}}

// The block's sums of each thread's two values, at `sums`.
__device__ void add_up(float first, float second, float2* sums) {{
  __shared__ float2 all[{threads}];
  all[threadIdx.x] = {{first, second}};
  for (unsigned half = {threads} / 2; half > 0; half /= 2) {{
    __syncthreads();
    if (threadIdx.x >= half) continue;
    all[threadIdx.x].x += all[threadIdx.x + half].x;
    all[threadIdx.x].y += all[threadIdx.x + half].y;
  }}
  if (threadIdx.x == 0) *sums = all[0];
}}

struct Totals {{ double x, y; }};

// The sums of a channel's parts, for all threads.
__device__ Totals total(const float2* sums, unsigned channel, unsigned parts) {{
  __shared__ Totals all;
  if (threadIdx.x == 0) {{
    Totals told = {{0, 0}};
    for (unsigned part = 0; part < parts; ++part) {{
      const float2 one = sums[channel * parts + part];
      told.x += one.x;
      told.y += one.y;
    }}
    all = told;
  }}
  __syncthreads();
  return all;
}}

// Sums of x - p and its square, where p is the channel's first element, so that
// little cancels if the mean is large.
extern "C" __global__ void __launch_bounds__({threads}) moments(
    const Element* __restrict__ x, float2* __restrict__ sums,
    unsigned long long packs, unsigned long long channels,
    unsigned long long plane, unsigned long long parts) {{
  const Part part = part_of(packs, parts);
  const Pack* const from = (const Pack*)x;
  const float pivot =
      wide(from[place(0, part.channel, channels, plane)].at[0]);
  float first = 0, second = 0;
#pragma unroll 4
  for (unsigned i = part.begin + threadIdx.x; i < part.end; i += {threads}) {{
    const Pack pack = from[place(i, part.channel, channels, plane)];
    for (int k = 0; k < {width}; ++k) {{
      const float off = wide(pack.at[k]) - pivot;
      first += off;
      second = __fmaf_rn(off, off, second);
    }}
  }}
  add_up(first, second, sums + blockIdx.x);
}}

// y = relu(normal(x) [+ z]). Of a sum, a bit of `kept` for each element says
// whether the ReLU let it pass.
extern "C" __global__ void __launch_bounds__({threads}) forward(
    const Element* __restrict__ x, const Element* __restrict__ z,
    const float* __restrict__ weights, const float* __restrict__ biases,
    float* __restrict__ running_mean, float* __restrict__ running_variance,
    double momentum, double epsilon, Element* __restrict__ y,
    float* __restrict__ means, float* __restrict__ inverses,
    unsigned char* __restrict__ kept, const float2* __restrict__ sums,
    unsigned long long packs, unsigned long long channels,
    unsigned long long plane, unsigned long long parts) {{
  const Part part = part_of(packs, parts);
  const unsigned c = part.channel;
  const Totals totals = total(sums, c, parts);
  const double count = (double)packs * {width};
  const double off = totals.x / count;
  const double variance = fmax(totals.y / count - off * off, 0.0);
  const float pivot =
      wide(((const Pack*)x)[place(0, c, channels, plane)].at[0]);
  const float mean = pivot + off;
  const float inverse = 1 / sqrt(variance + epsilon);
  if (part.first && threadIdx.x == 0) {{
    means[c] = mean;
    inverses[c] = inverse;
    if (running_mean) {{
      const double unbiased = variance * (count / (count - 1));
      running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean;
      running_variance[c] =
          (1 - momentum) * running_variance[c] + momentum * unbiased;
    }}
  }}
  const float weight = weights[c], bias = biases[c];
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < part.end - part.begin; i += {threads}) {{
    const unsigned long long at =
        place(part.end - 1 - i, c, channels, plane);
    Pack pack = ((const Pack*)x)[at];
#if {adds}
    const Pack addend = ((const Pack*)z)[at];
    unsigned bits = 0;
#endif
    for (int k = 0; k < {width}; ++k) {{
      float one = normal(wide(pack.at[k]), weight, bias, mean, inverse);
#if {adds}
      one = __fadd_rn(one, wide(addend.at[k]));
      bits |= (one > 0.0f) << k;
#endif
      pack.at[k] = narrow(one < 0.0f ? 0.0f : one);
    }}
    ((Pack*)y)[at] = pack;
#if {adds}
    kept[at] = bits;
#endif
  }}
}}

// The gradients that the ReLU let pass.
__device__ Pack passed(Pack gradient, Pack pack, unsigned bits, float weight,
                       float bias, float mean, float inverse) {{
  for (int k = 0; k < {width}; ++k) {{
#if {adds}
    const bool passes = bits >> k & 1;
#else
    const bool passes =
        normal(wide(pack.at[k]), weight, bias, mean, inverse) > 0.0f;
#endif
    if (!passes) gradient.at[k] = narrow(0.0f);
  }}
  return gradient;
}}

// Sums of the gradient g that the ReLU lets pass, and of g * (x - mean); of a sum,
// g is dz.
extern "C" __global__ void __launch_bounds__({threads}) reduce(
    const Element* __restrict__ x, const Element* __restrict__ dy,
    const float* __restrict__ weights, const float* __restrict__ biases,
    const float* __restrict__ means, const float* __restrict__ inverses,
    const unsigned char* __restrict__ kept, Element* __restrict__ dz,
    float2* __restrict__ sums, unsigned long long packs,
    unsigned long long channels, unsigned long long plane,
    unsigned long long parts) {{
  const Part part = part_of(packs, parts);
  const unsigned c = part.channel;
  const float weight = weights[c], bias = biases[c];
  const float mean = means[c], inverse = inverses[c];
  float first = 0, second = 0;
#pragma unroll 4
  for (unsigned i = part.begin + threadIdx.x; i < part.end; i += {threads}) {{
    const unsigned long long at = place(i, c, channels, plane);
    const Pack pack = ((const Pack*)x)[at];
#if {adds}
    const Pack gradient = passed(((const Pack*)dy)[at], pack, kept[at], weight,
                                 bias, mean, inverse);
    ((Pack*)dz)[at] = gradient;
#else
    const Pack gradient =
        passed(((const Pack*)dy)[at], pack, 0, weight, bias, mean, inverse);
#endif
    for (int k = 0; k < {width}; ++k) {{
      first += wide(gradient.at[k]);
      second = __fmaf_rn(wide(gradient.at[k]), wide(pack.at[k]) - mean, second);
    }}
  }}
  add_up(first, second, sums + blockIdx.x);
}}

// With M elements in a channel and the sums of `reduce`, s and t:
// dx = weight * inverse * (g - s / M - (x - mean) * inverse^2 * t / M).
extern "C" __global__ void __launch_bounds__({threads}) backward(
    const Element* __restrict__ x, const Element* __restrict__ dy,
    const float* __restrict__ weights, const float* __restrict__ biases,
    const float* __restrict__ means, const float* __restrict__ inverses,
    const Element* __restrict__ dz, Element* __restrict__ dx,
    float* __restrict__ dweights, float* __restrict__ dbiases,
    const float2* __restrict__ sums, unsigned long long packs,
    unsigned long long channels, unsigned long long plane,
    unsigned long long parts) {{
  const Part part = part_of(packs, parts);
  const unsigned c = part.channel;
  const Totals totals = total(sums, c, parts);
  const float weight = weights[c], bias = biases[c];
  const float mean = means[c], inverse = inverses[c];
  if (part.first && threadIdx.x == 0) {{
    dweights[c] = totals.y * inverse;
    dbiases[c] = totals.x;
  }}
  const double count = (double)packs * {width};
  const float scale = weight * inverse;
  const float all = totals.x / count;
  const float each = totals.y / count * inverse * inverse;
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < part.end - part.begin; i += {threads}) {{
    const unsigned long long at =
        place(part.end - 1 - i, c, channels, plane);
    Pack pack = ((const Pack*)x)[at];
#if {adds}
    const Pack gradient = ((const Pack*)dz)[at];
#else
    const Pack gradient =
        passed(((const Pack*)dy)[at], pack, 0, weight, bias, mean, inverse);
#endif
    for (int k = 0; k < {width}; ++k) {{
      const float off = wide(pack.at[k]) - mean;
      pack.at[k] =
          narrow(scale * (wide(gradient.at[k]) - all - off * each));
    }}
    ((Pack*)dx)[at] = pack;
  }}
}}
"""


def width_of(dtype: torch.dtype, plane: int) -> int:
    """The elements that a thread reads at once, all in one plane."""
    return math.gcd(VECTOR_BYTES * 8 // torch.finfo(dtype).bits, plane)


def source_of(dtype: torch.dtype, width: int, adds: bool) -> str:
    """Of `moments`, `forward`, `reduce` and `backward`, for packs of `width`
    elements; with a sum, if it `adds`. Counts are of packs: `packs` in a channel of
    all images, and `plane` in one image's."""
    element, conversions = ELEMENTS[dtype]
    return _SOURCE.format(
        element=element, conversions=conversions, width=width, adds=int(adds),
        bytes=width * torch.finfo(dtype).bits // 8, threads=THREADS,
    )  # fmt: skip
