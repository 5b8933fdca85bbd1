// The handle's overhead and gain.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "gpu.h"

namespace {

struct Kernel {
  std::string layer;
  Problem problem;
  std::unique_ptr<Descriptors> d;
  Choice choice;
};

std::vector<Kernel> ReadNetwork(const std::string& file, int batch,
                                const std::string& precision) {
  std::ifstream in(file);
  std::string line;
  std::getline(in,
               line);  // name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups
  std::vector<Kernel> kernels;
  bool first = true;
  while (std::getline(in, line)) {
    std::stringstream fields(line);
    std::string name;
    std::getline(fields, name, ',');
    std::vector<int> v;
    for (std::string field; std::getline(fields, field, ',');) {
      v.push_back(std::atoi(field.c_str()));
    }
    if (v.size() < 11) continue;
    for (const Op op : {kForward, kData, kFilter}) {
      if (op == kData && first) continue;
      Kernel kernel;
      kernel.layer = name;
      Problem& p = kernel.problem;
      p.op = op;
      p.math = precision == "fp32" ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
      if (precision == "half") {
        p.type = CUDNN_DATA_HALF;
        p.math = CUDNN_TENSOR_OP_MATH;
      }
      p.n = batch;
      p.c = v[0];
      p.in = {v[1], v[2]};
      p.k = v[3];
      p.filter = {v[4], v[5]};
      p.pad = {v[6], v[7]};
      p.stride = {v[8], v[9]};
      p.groups = v[10];
      p.dilation = {1, 1};
      kernel.d = std::make_unique<Descriptors>(p);
      kernels.push_back(std::move(kernel));
    }
    first = false;
  }
  return kernels;
}

float Median(std::vector<float> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Numbers in [-1, 1), as floats or as halves.
void FillRandom(void* data, std::size_t elements, std::size_t element) {
  const std::size_t size = elements * element;
  std::vector<char> pattern(std::min<std::size_t>(size, 1 << 22));
  unsigned state = 1;
  for (std::size_t at = 0; at + element <= pattern.size(); at += element) {
    state = state * 1664525U + 1013904223U;
    if (element == 4) {
      const float value = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
      std::memcpy(&pattern[at], &value, sizeof(value));
    } else {
      // A sign, an exponent of -4 to -1, and any mantissa.
      const auto bits = static_cast<std::uint16_t>(
          (state >> 16 & 0x8000U) | (11U + (state >> 29 & 3U)) << 10 |
          (state >> 8 & 0x3ffU));
      std::memcpy(&pattern[at], &bits, sizeof(bits));
    }
  }
  for (std::size_t at = 0; at < size; at += pattern.size()) {
    CHECK(cudaMemcpy(static_cast<char*>(data) + at, pattern.data(),
                     std::min(pattern.size(), size - at),
                     cudaMemcpyHostToDevice));
  }
}

// Medians over iterations, in milliseconds.
struct Times {
  float device = 0;
  float enqueueing = 0;
};

// Of 20 iterations after three to warm up.
template <class Iteration>
Times TimeIterations(cudaStream_t stream, const Iteration& iteration) {
  cudaEvent_t start = nullptr, stop = nullptr;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  std::vector<float> totals;
  std::vector<float> enqueues;
  for (int i = 0; i < 23; ++i) {
    const auto enqueueing = std::chrono::steady_clock::now();
    CHECK(cudaEventRecord(start, stream));
    iteration();
    CHECK(cudaEventRecord(stop, stream));
    const float enqueued = std::chrono::duration<float, std::milli>(
                               std::chrono::steady_clock::now() - enqueueing)
                               .count();
    CHECK(cudaEventSynchronize(stop));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    if (i < 3) continue;
    totals.push_back(milliseconds);
    enqueues.push_back(enqueued);
  }
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(stop));
  return {Median(std::move(totals)), Median(std::move(enqueues))};
}

// A layer's operands, and where its results go.
struct LayerMemory {
  Memory x, w, y, x_out, w_out, y_out;
};

// The same as TimeNetwork's iterations, but each layer has operands of its own
// and runs when it would in training: forward, then back.
Times TimeInTrainingOrder(Handle handle, cudaStream_t stream,
                          const std::vector<Kernel>& kernels,
                          std::size_t element, void* workspace) {
  std::map<std::string, LayerMemory> layers;
  const auto fill = [&](Memory& memory, std::size_t elements) {
    FillRandom(memory.Get(elements * element), elements, element);
  };
  const auto clear = [&](Memory& memory, std::size_t elements) {
    CHECK(cudaMemset(memory.Get(elements * element), 0, elements * element));
  };
  std::vector<const Kernel*> order;
  for (const Kernel& k : kernels) {
    if (k.problem.op != kForward) continue;
    order.push_back(&k);
    LayerMemory& m = layers[k.layer];
    fill(m.x, k.d->x_elements);
    fill(m.w, k.d->w_elements);
    fill(m.y, k.d->y_elements);
    clear(m.x_out, k.d->x_elements);
    clear(m.w_out, k.d->w_elements);
    clear(m.y_out, k.d->y_elements);
  }
  for (auto k = kernels.rbegin(); k != kernels.rend(); ++k) {
    if (k->problem.op != kForward) order.push_back(&*k);
  }
  return TimeIterations(stream, [&] {
    for (const Kernel* k : order) {
      LayerMemory& m = layers[k->layer];
      const Op op = k->problem.op;
      CHECK(Convolve(handle, op, *k->d, k->choice, 1.0F, 0.0F,
                     (op == kData ? m.x_out : m.x).Get(0),
                     (op == kFilter ? m.w_out : m.w).Get(0),
                     (op == kForward ? m.y_out : m.y).Get(0), workspace));
    }
  });
}

}  // namespace

int TimeNetwork(const std::string& file, int batch,
                const std::string& precision, bool each) {
  Handle handle = nullptr;
  CHECK(cudnnCreate(&handle));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudnnSetStream(handle, stream));
  auto kernels = ReadNetwork(file, batch, precision);
  const std::size_t element = precision == "half" ? 2 : 4;
  std::size_t xs = 0, ws = 0, ys = 0, outs = 0, most = 0;
  const auto begun = std::chrono::steady_clock::now();
  for (Kernel& k : kernels) {
    k.choice = Choose(handle, k.problem.op, *k.d, std::size_t{64} << 20, false);
    if (k.choice.algorithm < 0) {
      std::fprintf(stderr, "%s: no algorithm\n", k.problem.Text().c_str());
      return 1;
    }
    xs = std::max(xs, k.d->x_elements);
    ws = std::max(ws, k.d->w_elements);
    ys = std::max(ys, k.d->y_elements);
    outs = std::max({outs, xs, ws, ys});
    most = std::max(most, k.choice.workspace);
  }
  const double asked =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun)
          .count();
  Memory x, w, y, out, workspace;
  FillRandom(x.Get(xs * element), xs, element);
  FillRandom(w.Get(ws * element), ws, element);
  FillRandom(y.Get(ys * element), ys, element);
  // Outputs are overwritten repeatedly and never read: outputs reused as inputs
  // would become infinite after a few rounds, and infinities use less power
  // than numbers.
  CHECK(cudaMemset(out.Get(outs * element), 0, outs * element));
  void* const scratch = workspace.Get(std::max<std::size_t>(most, 256));
  cudaEvent_t start = nullptr, stop = nullptr;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  const auto run = [&](const Kernel& k) {
    const Op op = k.problem.op;
    CHECK(Convolve(handle, op, *k.d, k.choice, 1.0F, 0.0F,
                   op == kData ? out.Get(0) : x.Get(0),
                   op == kFilter ? out.Get(0) : w.Get(0),
                   op == kForward ? out.Get(0) : y.Get(0), scratch));
  };
  const Times times = TimeIterations(stream, [&] {
    for (const Kernel& k : kernels) run(k);
  });
  // Only now is a total divided.
  float predicted = 0;
  for (Kernel& k : kernels) {
    predicted +=
        Choose(handle, k.problem.op, *k.d, std::size_t{64} << 20, false)
            .milliseconds;
  }
  std::printf(
      "%s batch %d %s: %zu kernels, workspace %.1f MiB, asked in %.2f s, "
      "enqueued in %.3f ms, measured %.3f ms",
      file.c_str(), batch, precision.c_str(), kernels.size(),
      static_cast<double>(most) / 1048576.0, asked,
      static_cast<double>(times.enqueueing), static_cast<double>(times.device));
  if (predicted > 0) {
    std::printf(", predicted %.3f ms, deviation %+.1f %%",
                static_cast<double>(predicted),
                100.0 * static_cast<double>(times.device / predicted - 1));
    const Times own =
        TimeInTrainingOrder(handle, stream, kernels, element, scratch);
    std::printf(", on operands of each layer %.3f ms, deviation %+.1f %%",
                static_cast<double>(own.device),
                100.0 * static_cast<double>(own.device / predicted - 1));
  }
  std::printf("\n");
  for (const Kernel& k : kernels) {
    if (!each) break;
    std::vector<float> repeats;
    for (int i = 0; i < 7; ++i) {
      CHECK(cudaEventRecord(start, stream));
      for (int j = 0; j < 4; ++j) run(k);
      CHECK(cudaEventRecord(stop, stream));
      CHECK(cudaEventSynchronize(stop));
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
      repeats.push_back(milliseconds / 4);
    }
    std::printf("  %-24s %-16s measured %8.3f ms, predicted %8.3f ms\n",
                k.layer.c_str(), Name(k.problem.op),
                static_cast<double>(Median(repeats)),
                static_cast<double>(k.choice.milliseconds));
  }
  CHECK(cudnnDestroy(handle));
  return 0;
}

#ifdef UCUDNN_GPU_TEST_HANDLE
namespace {

// Host microseconds per call of `call`; the queue never fills up.
template <class Call>
double HostTime(cudaStream_t stream, Call call) {
  constexpr int kCalls = 8;
  CHECK(cudaStreamSynchronize(stream));
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now() - begun)
             .count() /
         kCalls;
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

// The same micro-batches with the handle and by hand. As graphs they must take
// less than 10 us, enqueued 2 us more than by hand for each.
int MeasureOverhead(int pieces) {
  const char* const memory = std::getenv("UCUDNN_GRAPH_MEMORY");
  const bool replayed = memory == nullptr || std::string(memory) != "0";
  const std::string plan = "/tmp/ucudnn-overhead-plan.json";
  const int batch = 4 * pieces;
  {
    std::ofstream out(plan);
    const char* problem =
        "forward-c8-h8w8-k8-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW";
    out << R"({"batch":)" << batch
        << R"(,"workspace_limit_bytes":0,"total_time_us":1,)"
        << R"("lower_bound_us":1,"optimal":true,"undivided_time_us":null,)"
        << R"("total_workspace_bytes":0,"kernels":[{"layer":"l","op":"forward",)"
        << R"("precision":"FP32","layout":"NCHW","problem":")" << problem
        << R"(","time_us":1,"undivided_time_us":null,"workspace_bytes":0,)"
        << R"("micro_batches":[{"batch":4,"count":)" << pieces
        << R"(,"algorithm":"IMPLICIT_GEMM",)"
        << R"("math":"FMA","precision":"FP32","time_us":1,)"
        << R"("workspace_bytes":0}]}]})";
  }
  setenv("UCUDNN_PLAN_FILE", plan.c_str(), 1);
  Problem whole;
  whole.n = batch;
  whole.c = 8;
  whole.k = 8;
  whole.in = {8, 8};
  whole.filter = {3, 3};
  whole.pad = whole.stride = whole.dilation = {1, 1};
  Problem piece = whole;
  piece.n = batch / pieces;
  const Descriptors dw(whole);
  const Descriptors dp(piece);
  UcudnnHandle_t handle;
  CHECK(cudnnCreate(&handle));
  const cudnnHandle_t direct = handle;
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudnnSetStream(handle, stream));
  Memory x, w, y;
  auto* px = static_cast<float*>(x.Get(dw.x_elements * 4));
  auto* pw = static_cast<float*>(w.Get(dw.w_elements * 4));
  auto* py = static_cast<float*>(y.Get(dw.y_elements * 4));
  const float alpha = 1, beta = 0;
  constexpr auto kAlgo = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  const auto by_handle = [&] {
    CHECK(cudnnConvolutionForward(handle, &alpha, dw.x, px, dw.w, pw, dw.conv,
                                  kAlgo, nullptr, 0, &beta, dw.y, py));
  };
  const auto by_hand = [&] {
    for (int i = 0; i < pieces; ++i) {
      CHECK(cudnnConvolutionForward(
          direct, &alpha, dp.x,
          px + static_cast<std::size_t>(i) * dp.x_elements, dp.w, pw, dp.conv,
          kAlgo, nullptr, 0, &beta, dp.y,
          py + static_cast<std::size_t>(i) * dp.y_elements));
    }
  };
  for (int i = 0; i < 3; ++i) by_handle();  // plans, captures, replays
  by_hand();
  // In pairs, so that both run at the same clocks and next to the same load.
  std::vector<double> hand;
  std::vector<double> ours;
  std::vector<double> more;
  for (int round = 0; round < 6000 / pieces; ++round) {
    hand.push_back(HostTime(stream, by_hand));
    ours.push_back(HostTime(stream, by_handle));
    more.push_back((ours.back() - hand.back()) / pieces);
  }
  const double overhead = MedianOf(more);
  std::printf(
      "%d micro-batches by hand %.2f us, by the handle %.2f us; median of the "
      "differences %+.3f us a micro-batch\n",
      pieces, MedianOf(hand), MedianOf(ours), overhead);
  if (replayed ? MedianOf(ours) > 10 : overhead > 2) return 1;
  CHECK(cudnnDestroy(handle));
  return 0;
}
#else
int MeasureOverhead(int) {
  std::fprintf(stderr, "overhead: needs the handle\n");
  return 2;
}
#endif
