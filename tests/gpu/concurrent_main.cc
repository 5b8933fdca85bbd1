// ucudnn_gpu_concurrent: what measurements and memory plans assume of GPU 0,
// checked.
//
//   ucudnn_gpu_concurrent
//
// Prints how long a small kernel takes before and after another stream has run
// kernels (docs/adr/0052), how long max pools' backward passes take on
// different inputs, and how fast copies are beside kernels, with 64 MiB of
// pinned memory on the host.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/median.h"
#include "device/accuracy.h"
#include "device/cudnn/cudnn_device.h"
#include "device/elements.h"
#include "device/operators/open.h"

namespace ucudnn {
namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<Status()>;

double Milliseconds(Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

float* Floats(const DeviceBuffer& buffer) {
  return static_cast<float*>(buffer.data());
}

// The median of seven runs, after one to warm up.
Result<Nanoseconds> MedianTime(Device& device, const Work& work) {
  UCUDNN_RETURN_IF_ERROR(device.Time(work));
  std::vector<Nanoseconds> times;
  for (int i = 0; i < 7; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(times.emplace_back(), device.Time(work));
  }
  return MedianAndSpreadOf(std::move(times)).median;
}

// Times a graph of small kernels on `device` while `other`, the same GPU with
// another stream, runs more and more kernels. Neither has run any before.
Status TimeSmallKernels(Device& device, Device& other) {
  constexpr std::int64_t kKernels = 400;
  constexpr Bytes kSize = 1_MiB;
  UCUDNN_ASSIGN_OR_RETURN(const DeviceBuffer buffer, device.Allocate(kSize));
  const auto run = [&]() -> Status {
    for (std::int64_t i = 0; i < kKernels; ++i) {
      UCUDNN_RETURN_IF_ERROR(
          device.Scale(Floats(buffer), kSize.count() / 4, 1));
    }
    return {};
  };
  UCUDNN_RETURN_IF_ERROR(run());
  UCUDNN_ASSIGN_OR_RETURN(const auto graph, device.Capture(run));
  for (const int kernels : {0, 5, 10, 40}) {
    for (int i = 0; i < kernels; ++i) {
      UCUDNN_RETURN_IF_ERROR(other.Fill(buffer.data(), 0, kSize));
    }
    UCUDNN_RETURN_IF_ERROR(other.Synchronize());
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, MedianTime(device, [&] {
                              return graph->Enqueue();
                            }));
    fmt::print("after {} more kernels in another stream: {:.3f} us a kernel\n",
               kernels, Milliseconds(time) * 1e3 / kKernels);
  }
  return {};
}

struct PoolShape {
  const char* network;
  std::int64_t batch, channels, input, output, window, stride, padding;
};

// Rows of values that a network could have, by the name of their kind.
std::vector<float> Values(const std::string& kind, std::int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  float last = 0;
  for (float& value : values) {
    if (kind == "constant") {
      value = 1;
    } else if (kind == "smooth, rectified") {
      last = 0.9F * last + normal(random);
      value = std::max(0.0F, last);
    } else {
      value = normal(random);
      if (kind == "rectified") value = std::max(0.0F, value);
    }
  }
  return values;
}

Status TimePool(Device& device, Operators& operators, const PoolShape& shape) {
  const BatchSize batch(shape.batch);
  Pooling pooling;
  pooling.input = {shape.channels, shape.input, shape.input};
  pooling.output = {shape.channels, shape.output, shape.output};
  for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
    Window& window = pooling.windows[axis];
    window.extent = shape.window;
    window.stride = shape.stride;
    window.before = shape.padding;
  }
  const Bytes in = Bytes(4 * pooling.input.elements()) * shape.batch;
  const Bytes out = Bytes(4 * pooling.output.elements()) * shape.batch;
  UCUDNN_ASSIGN_OR_RETURN(const DeviceBuffer x, device.Allocate(in));
  UCUDNN_ASSIGN_OR_RETURN(const DeviceBuffer dx, device.Allocate(in));
  UCUDNN_ASSIGN_OR_RETURN(const DeviceBuffer y, device.Allocate(out));
  UCUDNN_ASSIGN_OR_RETURN(const DeviceBuffer dy, device.Allocate(out));
  UCUDNN_RETURN_IF_ERROR(
      UploadRepeated(device, dy, RandomElements(1 << 20, Precision::kFp32, 2)));
  for (const char* kind :
       {"random", "rectified", "smooth, rectified", "constant"}) {
    const auto values = Values(kind, 3 * pooling.input.elements());
    UCUDNN_RETURN_IF_ERROR(UploadRepeated(
        device, x,
        {reinterpret_cast<const char*>(values.data()), 4 * values.size()}));
    UCUDNN_RETURN_IF_ERROR(
        operators.Pool(batch, pooling, Floats(x), Floats(y)));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, MedianTime(device, [&] {
                              return operators.PoolBackward(
                                  batch, pooling, Floats(x), Floats(y),
                                  Floats(dy), 0, Floats(dx));
                            }));
    fmt::print("max pool of {}, {}: backward {:.3f} ms\n", shape.network, kind,
               Milliseconds(time));
  }
  return {};
}

struct Load {
  std::string name;
  Work work;
};

class LinkTest {
 public:
  static Status Run(Device& device, Operators& operators) {
    LinkTest test(device);
    UCUDNN_RETURN_IF_ERROR(test.Prepare(operators));
    for (const Load& load : test.loads_) {
      for (const auto& [up, down] :
           {std::pair(true, false), {false, true}, {true, true}}) {
        UCUDNN_RETURN_IF_ERROR(test.Time(load, up, down));
      }
    }
    return {};
  }

 private:
  static constexpr Bytes kPiece = 64_MiB;
  static constexpr std::int64_t kPieces = 24;  // 1.5 GiB, some 30 ms
  // Longer than the copies.
  static constexpr Nanoseconds kBusy = std::chrono::milliseconds(60);

  explicit LinkTest(Device& device) : device_(device) {}

  Status Prepare(Operators& operators) {
    for (DeviceBuffer* buffer : {&a_, &b_, &out_}) {
      UCUDNN_ASSIGN_OR_RETURN(*buffer, device_.Allocate(1_GiB));
      UCUDNN_RETURN_IF_ERROR(device_.Fill(buffer->data(), 0, 1_GiB));
    }
    UCUDNN_ASSIGN_OR_RETURN(source_, device_.AllocateHost(kPiece));
    UCUDNN_ASSIGN_OR_RETURN(target_, device_.AllocateHost(kPiece));
    UCUDNN_ASSIGN_OR_RETURN(there_, device_.Allocate(kPiece * 2));
    UCUDNN_ASSIGN_OR_RETURN(up_, device_.MakeCopyQueue());
    UCUDNN_ASSIGN_OR_RETURN(down_, device_.MakeCopyQueue());
    constexpr std::int64_t kElements = 1 << 27;
    loads_.push_back({"nothing", nullptr});
    loads_.push_back(
        {"Scale", [this] { return device_.Scale(Floats(a_), kElements, 1); }});
    loads_.push_back({"ReLU", [this, &operators] {
                        return operators.Relu(BatchSize(1), kElements,
                                              Floats(a_), Floats(out_));
                      }});
    for (const Precision precision : {Precision::kFp32, Precision::kTf32}) {
      UCUDNN_RETURN_IF_ERROR(AddConvolution(precision, 64, 3));
      UCUDNN_RETURN_IF_ERROR(AddConvolution(precision, 256, 1));
    }
    return {};
  }

  Status AddConvolution(Precision precision, std::int64_t channels,
                        std::int64_t filter) {
    const BatchSize batch(128);
    ConvProblem problem;
    problem.precision = precision;
    ConvGeometry& g = problem.geometry;
    g.channels = channels;
    g.filters = 64;
    g.input = {1, 56, 56};
    g.filter = {1, filter, filter};
    g.padding = {0, filter / 2, filter / 2};
    UCUDNN_ASSIGN_OR_RETURN(const Candidate chosen,
                            SuggestWithin(device_, problem, batch, 64_MiB,
                                          kDefaultMaxError, &errors_));
    UCUDNN_ASSIGN_OR_RETURN(convolutions_.emplace_back(),
                            device_.Prepare(problem, batch, chosen.algorithm));
    UCUDNN_ASSIGN_OR_RETURN(workspaces_.emplace_back(),
                            device_.Allocate(chosen.workspace));
    loads_.push_back(
        {fmt::format("{} {}x{}, {} channels", Name(precision), filter, filter,
                     channels),
         [this, i = convolutions_.size() - 1] {
           return convolutions_[i]->Run(
               {.a = a_.data(), .b = b_.data(), .out = out_.data()},
               workspaces_[i].data(), workspaces_[i].size());
         }});
    return {};
  }

  Status Time(const Load& load, bool up, bool down) {
    std::int64_t runs = 0;
    if (load.work) {
      UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds once,
                              MedianTime(device_, load.work));
      runs = kBusy / std::max(once, Nanoseconds(1)) + 1;
    }
    std::vector<Nanoseconds> times;
    for (int repeat = 0; repeat < 3; ++repeat) {
      for (std::int64_t i = 0; i < runs; ++i) {
        UCUDNN_RETURN_IF_ERROR(load.work());
      }
      const auto begun = Clock::now();
      UCUDNN_RETURN_IF_ERROR(Copy(up, down));
      times.push_back(Clock::now() - begun);
      UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
    }
    const Nanoseconds time = MedianAndSpreadOf(std::move(times)).median;
    fmt::print("link {}{}{} beside {}: {:.2f} GB/s each way\n", up ? "up" : "",
               up && down ? " and " : "", down ? "down" : "", load.name,
               static_cast<double>((kPiece * kPieces).count()) /
                   static_cast<double>(time.count()));
    return {};
  }

  Status Copy(bool up, bool down) {
    for (std::int64_t i = 0; i < kPieces; ++i) {
      if (up) {
        UCUDNN_RETURN_IF_ERROR(
            up_->Upload(there_.data(), source_.data(), kPiece));
      }
      if (down) {
        UCUDNN_RETURN_IF_ERROR(down_->Download(
            target_.data(), static_cast<char*>(there_.data()) + kPiece.count(),
            kPiece));
      }
    }
    UCUDNN_RETURN_IF_ERROR(up_->Synchronize());
    return down_->Synchronize();
  }

  Device& device_;
  AlgorithmErrors errors_;
  DeviceBuffer a_, b_, out_;      // of the loads
  DeviceBuffer source_, target_;  // on the host
  DeviceBuffer there_;
  std::unique_ptr<CopyQueue> up_, down_;
  std::vector<std::unique_ptr<Convolution>> convolutions_;
  std::vector<DeviceBuffer> workspaces_;
  std::vector<Load> loads_;
};

Status Run() {
  CudnnOptions options;
  options.ordinals = {0};
  options.graph = false;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, OpenCudnnDevices(options));
  UCUDNN_ASSIGN_OR_RETURN(const auto others, OpenCudnnDevices(options));
  Device& device = *devices.front();
  UCUDNN_RETURN_IF_ERROR(TimeSmallKernels(device, *others.front()));
  UCUDNN_ASSIGN_OR_RETURN(const auto operators, OpenOperators(device));
  for (const PoolShape& shape :
       {PoolShape{"ResNet-50", 128, 64, 112, 56, 3, 2, 1},
        {"AlexNet", 256, 64, 55, 27, 3, 2, 0},
        {"VGG-16", 64, 64, 224, 112, 2, 2, 0}}) {
    UCUDNN_RETURN_IF_ERROR(TimePool(device, *operators, shape));
  }
  return LinkTest::Run(device, *operators);
}

}  // namespace
}  // namespace ucudnn

int main() {
  const auto ran = ucudnn::Run();
  if (ran) return 0;
  fmt::print(stderr, "ucudnn_gpu_concurrent: {}\n", ran.error().message);
  return 1;
}
