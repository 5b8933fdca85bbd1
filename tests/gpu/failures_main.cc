// Provokes failures on a real GPU. Each case prints the message that a user
// would read.
//
//   ucudnn_gpu_failures            all cases, the poisoned context last
//
// Exit status 0 if every failure was reported as device/device.h says.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/cudnn/cudnn_device.h"
#include "device/measure/measure.h"

namespace ucudnn {
namespace {

ConvProblem Problem() {
  return ParseConvProblem(
             "forward-c64-h27w27-k192-r5s5-pad2x2-str1x1-dil1x1-g1-FP32-NCHW")
      .value();
}

Result<std::unique_ptr<Device>> Open() {
  CudnnOptions options;
  options.ordinals = {0};
  UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenCudnnDevices(options));
  return std::move(devices.front());
}

// Whether `status` is an error with this code; prints it.
bool Is(Code code, const std::string& what, const Status& status) {
  const Code found = status ? Code::kOk : status.error().code;
  std::printf("%s %s: %s: %s\n", found == code ? "ok" : "NOT OK", what.c_str(),
              std::string(CodeName(found)).c_str(),
              status ? "" : status.error().message.c_str());
  std::fflush(stdout);
  return found == code;
}

template <class T>
Status StatusOf(const Result<T>& result) {
  if (result) return {};
  return tl::unexpected<Error>(result.error());
}

Status Measure(Device& device) {
  std::size_t left_out = 0;
  const auto points = MeasureBench(device).Measure(
      Problem(), BatchSize(64), MeasureOptions(), {},
      [&](const Candidate& candidate, const Result<MeasuredPoint>& point) {
        if (point) return;
        ++left_out;
        std::printf("   left out %s: %s\n", candidate.algorithm.name.c_str(),
                    point.error().message.c_str());
      });
  if (points) {
    std::printf("   %zu algorithms measured, %zu left out\n", points->size(),
                left_out);
  }
  return StatusOf(points);
}

// Fills the memory, then measures with what is left.
bool OutOfMemory() {
  auto device = Open();
  if (!device) return Is(Code::kOk, "open", StatusOf(device));
  std::vector<DeviceBuffer> all;
  for (Bytes piece = 16_GiB; piece >= 16_MiB;) {
    auto buffer = (*device)->Allocate(piece);
    if (buffer) {
      all.push_back(*std::move(buffer));
    } else {
      piece = Bytes(piece.count() / 2);
    }
  }
  bool ok = Is(Code::kResourceExhausted, "allocation in full memory",
               StatusOf((*device)->Allocate(1_GiB)));
  ok &= Is(Code::kResourceExhausted, "measuring without memory for tensors",
           Measure(**device));
  // Room for the tensors and small workspaces.
  for (Bytes room; room < 128_MiB && !all.empty();) {
    room = room + all.back().size();
    all.pop_back();
  }
  ok &= Is(Code::kOk, "measuring with little memory", Measure(**device));
  all.clear();
  ok &= Is(Code::kOk, "measuring after that", Measure(**device));
  return ok;
}

// Makes a convolution write to an invalid address.
bool PoisonedContext() {
  auto device = Open();
  if (!device) return Is(Code::kOk, "open", StatusOf(device));
  auto algorithms = (*device)->ListAlgorithms(Problem(), BatchSize(4));
  if (!algorithms) return Is(Code::kOk, "list", StatusOf(algorithms));
  auto convolution = (*device)->Prepare(Problem(), BatchSize(4),
                                        algorithms->front().algorithm);
  if (!convolution) return Is(Code::kOk, "prepare", StatusOf(convolution));
  auto workspace = (*device)->Allocate((*convolution)->workspace());
  if (!workspace) return Is(Code::kOk, "allocate", StatusOf(workspace));
  // Distinct addresses, because cuDNN refuses overlapping operands.
  const auto nowhere = [](std::uintptr_t i) {
    return reinterpret_cast<void*>((std::uintptr_t{1} << 40) + (i << 30));
  };
  ConvArgs args;
  args.a = nowhere(0);
  args.b = nowhere(1);
  args.out = nowhere(2);
  const auto timed = (*device)->Time([&] {
    return (*convolution)
        ->Run(args, workspace->data(), (*convolution)->workspace());
  });
  bool ok = Is(Code::kDataLoss, "a run that writes nowhere", StatusOf(timed));
  ok &= Is(Code::kDataLoss, "whatever follows", Measure(**device));
  ok &= Is(Code::kDataLoss, "and allocation",
           StatusOf((*device)->Allocate(1_MiB)));
  return ok;
}

bool FreshStart() {
  auto device = Open();
  if (!device) return Is(Code::kOk, "open in a new process", StatusOf(device));
  return Is(Code::kOk, "measuring in a new process", Measure(**device));
}

// In a process of its own: losing a context affects the whole process.
bool InProcess(const std::function<bool()>& run) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(run() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

int Main() {
  bool ok = InProcess(OutOfMemory);
  ok &= InProcess(PoisonedContext);
  ok &= InProcess(FreshStart);
  std::printf("%s\n", ok ? "every failure was reported as such" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace ucudnn

int main() { return ucudnn::Main(); }
