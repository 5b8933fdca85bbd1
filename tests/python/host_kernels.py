"""Runs the package's CUDA kernels on the CPU, compiled by g++: each thread of a
block is one of the host's, where they wait for each other."""

import ctypes
import functools
import re
import subprocess
import tempfile
from pathlib import Path

# What a kernel finds on a GPU.
_ON_THE_HOST = """
#include <cmath>
#include <cstring>
#define __device__ static inline
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
struct Place { unsigned x; };
struct float2 { float x, y; };
static Place blockIdx, gridDim;
static thread_local Place threadIdx;
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static float __fadd_rn(float x, float y) { return x + y; }
static float __fsub_rn(float x, float y) { return x - y; }
static float __fmul_rn(float x, float y) { return x * y; }
"""
# What those find that wait for each other.
_WAITING = """
#include <barrier>
#include <thread>
#include <vector>
static std::barrier<>* together;
static void __syncthreads() { together->arrive_and_wait(); }
"""
_ARGUMENT = """
template <class T>
static T argument(unsigned long long bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
"""
_RUN = """
extern "C" void run_%(name)s(unsigned blocks, unsigned count,
                             unsigned long long* a) {
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    const auto kernel = [&] { %(call)s; };
    %(threads)s
  }
}
"""
_ONE_BY_ONE = """
    for (threadIdx.x = 0; threadIdx.x < count; ++threadIdx.x) kernel();
"""
_TOGETHER = """
    std::barrier<> all(count);
    together = &all;
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        threadIdx.x = i;
        kernel();
      });
"""


@functools.lru_cache(maxsize=None)
def _library(source):
    """With a function run_NAME for each kernel."""
    waits = "__syncthreads" in source
    text = _ON_THE_HOST + (_WAITING if waits else "") + source + _ARGUMENT
    threads = _TOGETHER if waits else _ONE_BY_ONE
    for name, listed in re.findall(r"__global__[^{]*? (\w+)\(\n([^{]*)\) {", source):
        types = [
            re.sub(r"__restrict__|\w+$", "", one.strip()) for one in listed.split(",")
        ]
        call = ", ".join(f"argument<{t.strip()}>(a[{i}])" for i, t in enumerate(types))
        text += _RUN % {"name": name, "call": f"{name}({call})", "threads": threads}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cc"
        path.write_text(text)
        library = path.with_suffix(".so")
        subprocess.run(
            ["g++", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-pthread",
             "-std=c++20", "-o", library, path], check=True)  # fmt: skip
        return ctypes.CDLL(str(library))


class HostKernel:
    """As ucudnn.torch.kernels.Kernel."""

    def __init__(self, source, name, device):
        self._run = getattr(_library(source), f"run_{name}")

    def launch(self, blocks, threads, arguments):
        self._run(blocks, threads, (ctypes.c_uint64 * len(arguments))(*arguments))
