// Runs one shape concurrently on two streams of two handles and on two streams
// of one handle. Under UCUDNN_TOTAL_WORKSPACE_SIZE their segments must stay
// disjoint, so that each result equals the one computed alone.

#include <array>
#include <cmath>
#include <thread>

#include "gpu.h"

namespace {

constexpr std::size_t kStreams = 4;
constexpr int kRuns = 40;

struct Lane {
  cudaStream_t stream = nullptr;
  Memory x, w, y, workspace;
  std::vector<float> alone;
};

Problem Shape() {
  Problem p;
  p.n = 32;
  p.c = 32;
  p.k = 32;
  p.in = {28, 28};
  p.filter = {3, 3};
  p.pad = p.stride = p.dilation = {1, 1};
  return p;
}

void Fill(void* data, std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& v : values) {
    seed = seed * 1664525U + 1013904223U;
    v = static_cast<float>(seed >> 8) * 0x1p-23F - 1.0F;
  }
  CHECK(cudaMemcpy(data, values.data(), count * 4, cudaMemcpyHostToDevice));
}

}  // namespace

int RunStreams() {
  const Problem p = Shape();
  const Descriptors d(p);
  std::array<Handle, 2> handles = {};
  for (Handle& handle : handles) CHECK(cudnnCreate(&handle));
  std::array<Lane, kStreams> lanes;
  const auto run = [&](std::size_t lane) {
    Lane& l = lanes[lane];
    const Handle handle = handles[lane / 2];
    CHECK(cudnnSetStream(handle, l.stream));
    const Choice choice = Choose(handle, p.op, d, std::size_t{64} << 20, false);
    void* const scratch =
        choice.workspace > 0 ? l.workspace.Get(choice.workspace) : nullptr;
    CHECK(Convolve(handle, p.op, d, choice, 1.0F, 0.0F, l.x.Get(0), l.w.Get(0),
                   l.y.Get(0), scratch));
  };
  const auto result = [&](Lane& l) {
    std::vector<float> values(d.y_elements);
    CHECK(cudaStreamSynchronize(l.stream));
    CHECK(cudaMemcpy(values.data(), l.y.Get(0), values.size() * 4,
                     cudaMemcpyDeviceToHost));
    return values;
  };
  for (std::size_t i = 0; i < kStreams; ++i) {
    Lane& l = lanes[i];
    CHECK(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking));
    Fill(l.x.Get(d.x_elements * 4), d.x_elements, static_cast<unsigned>(i) + 1);
    Fill(l.w.Get(d.w_elements * 4), d.w_elements, static_cast<unsigned>(i) + 9);
    l.y.Get(d.y_elements * 4);
    run(i);
    l.alone = result(l);
  }
  // Two threads with a handle each, each with two streams in turn.
  std::array<std::thread, 2> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads[t] = std::thread([&, t] {
      for (int i = 0; i < kRuns; ++i) {
        run(2 * t);
        run(2 * t + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  double worst = 0;
  for (Lane& l : lanes) {
    const auto together = result(l);
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < together.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(l.alone[i])));
      difference = std::max(
          difference, std::abs(static_cast<double>(together[i] - l.alone[i])));
    }
    worst = std::max(worst, difference / largest);
  }
  std::printf("%zu streams at once: largest error %.3g\n", kStreams, worst);
  for (Handle& handle : handles) CHECK(cudnnDestroy(handle));
  return worst < 1e-5 ? 0 : 1;
}
