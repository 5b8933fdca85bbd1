// ucudnn_gpu_probe: lists cuDNN's algorithms for AlexNet's conv2 on each GPU,
// with their workspaces and one timing each. Run it first on a new machine: it
// shows at once whether libraries, device and algorithms work.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/monitor.h"
#include "device/cudnn/graph/graph.h"
#include "device/cudnn/handle.h"

namespace ucudnn {
namespace {

struct Settings {
  std::int64_t batch = 256;
  std::string op;         // empty: all
  std::string precision;  // likewise
  std::string layout;     // likewise
  std::string slice;
  bool graph = false;
  bool only_graph = false;
  bool list_only = false;
  bool engines = false;
  std::vector<std::string> compared;  // problems
};

void Print(const std::string& line) { std::puts(line.c_str()); }

ConvGeometry Conv2() {
  ConvGeometry g;
  g.channels = 64;
  g.input = {1, 27, 27};
  g.filters = 192;
  g.filter = {1, 5, 5};
  g.padding = {0, 2, 2};
  return g;
}

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

std::string Text(const Error& error) {
  return fmt::format("{}: {}", CodeName(error.code), error.message);
}

// Operands large enough for every operation.
struct Memory {
  DeviceBuffer input, filter, output;
};

Result<Memory> Operands(Device& device, std::int64_t batch) {
  const ConvGeometry g = Conv2();
  Memory memory;
  for (const auto& [buffer, elements] :
       {std::pair(&memory.input, batch * g.input_elements()),
        std::pair(&memory.filter, g.filter_elements()),
        std::pair(&memory.output, batch * g.output_elements())}) {
    UCUDNN_ASSIGN_OR_RETURN(*buffer, device.Allocate(Bytes(elements * 4)));
    // A moderate number in every precision: 0.0115 as float, 1.06 as half.
    UCUDNN_RETURN_IF_ERROR(device.Fill(buffer->data(), 0x3c, buffer->size()));
  }
  return memory;
}

ConvArgs ArgsOf(const Memory& m, ConvOp op) {
  switch (op) {
    case ConvOp::kBackwardData:
      return {m.output.data(), m.filter.data(), m.input.data()};
    case ConvOp::kBackwardFilter:
      return {m.input.data(), m.output.data(), m.filter.data()};
    case ConvOp::kForward:
      break;
  }
  return {m.input.data(), m.filter.data(), m.output.data()};
}

// "355.1 us  (prepared in 0.1 ms, first run 1.2 ms, beta 1 372.0 us)"
Result<std::string> Measure(Device& device, const ConvProblem& problem,
                            BatchSize batch, const Candidate& candidate,
                            const Memory& memory) {
  const auto begun = std::chrono::steady_clock::now();
  UCUDNN_ASSIGN_OR_RETURN(auto convolution,
                          device.Prepare(problem, batch, candidate.algorithm));
  const double prepared = MillisecondsSince(begun);
  UCUDNN_ASSIGN_OR_RETURN(auto workspace,
                          device.Allocate(convolution->workspace()));
  ConvArgs args = ArgsOf(memory, problem.op);
  const auto run = [&] {
    return device.Time([&] {
      return convolution->Run(args, workspace.data(), workspace.size());
    });
  };
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds first, run());
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds second, run());
  args.beta = 1;
  const auto accumulating = [&]() -> Result<Nanoseconds> {
    UCUDNN_RETURN_IF_ERROR(run());
    return run();
  }();
  if (!accumulating && accumulating.error().code == Code::kDataLoss) {
    return tl::unexpected<Error>(accumulating.error());
  }
  return fmt::format(
      "{:>9}  (prepared in {:.1f} ms, first run {}, beta 1 {})",
      HumanTime(second), prepared, HumanTime(first),
      accumulating ? HumanTime(*accumulating) : Text(accumulating.error()));
}

// The engines that cuDNN suggests, and the results of checking them.
Status SurveyProblem(cudnn::CudnnHandle& handle, const ConvProblem& problem,
                     BatchSize batch) {
  Print(fmt::format("\n{} batch {}", ToString(problem), batch.count()));
  const auto begun = std::chrono::steady_clock::now();
  const auto survey = cudnn::SurveyGraph(handle, problem, batch);
  const double first = MillisecondsSince(begun);
  if (!survey) {
    Print("  " + Text(survey.error()));
    if (survey.error().code != Code::kDataLoss) return {};
    return tl::unexpected<Error>(survey.error());
  }
  const auto again = std::chrono::steady_clock::now();
  UCUDNN_RETURN_IF_ERROR(cudnn::SurveyGraph(handle, problem, batch));
  Print(
      fmt::format("  {} engines, checked and listed in {:.1f} ms, listed in "
                  "{:.1f} ms",
                  survey->size(), first, MillisecondsSince(again)));
  for (const cudnn::SuggestedEngine& engine : *survey) {
    const Candidate& c = engine.candidate;
    Print(fmt::format("  {:<28} {:<11} {:>10}  {}", c.algorithm.name,
                      Name(c.algorithm.precision), HumanBytes(c.workspace),
                      !engine.fault.empty() ? engine.fault
                      : engine.scales       ? "any alpha and beta"
                                            : "only alpha 1 and beta 0"));
  }
  return {};
}

// Calls `work` with a handle of its own on GPU 0.
Status WithHandle(const std::function<Status(cudnn::CudnnHandle&)>& work) {
  UCUDNN_ASSIGN_OR_RETURN(const cudnn::Libraries* libraries,
                          cudnn::LoadedLibraries());
  if (libraries->driver.Init(0) != CUDA_SUCCESS) {
    return Fail(Code::kUnavailable, "the driver does not start");
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto context,
      cudnn::GpuContext::Create(libraries->driver, 0, "GPU 0", 0));
  UCUDNN_ASSIGN_OR_RETURN(const auto handle, cudnn::CudnnHandle::Create(
                                                 libraries->cudnn, *context));
  return work(*handle);
}

// How engines are listed when they are built and when they are foreseen: the
// times of the two, the first of which also checks new engines, and where they
// differ.
Status CompareListings(cudnn::CudnnHandle& handle, const ConvProblem& problem,
                       std::int64_t most) {
  Print(fmt::format("\n{}", ToString(problem)));
  std::set<Algorithm> known;
  for (std::int64_t n = most; n > 0; n = n * 3 / 4) {
    const BatchSize batch(n);
    const auto begun = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(cudnn::ForeseeGraph(handle, problem, batch));
    const double checked = MillisecondsSince(begun);
    const auto again = std::chrono::steady_clock::now();
    UCUDNN_ASSIGN_OR_RETURN(const auto foreseen,
                            cudnn::ForeseeGraph(handle, problem, batch));
    const double fast = MillisecondsSince(again);
    const auto last = std::chrono::steady_clock::now();
    UCUDNN_ASSIGN_OR_RETURN(const auto built,
                            cudnn::ListGraph(handle, problem, batch));
    const double slow = MillisecondsSince(last);
    std::size_t fresh = 0;
    for (const Candidate& c : built) fresh += known.insert(c.algorithm).second;
    Print(
        fmt::format("  batch {}: {} engines, {} new; checked {:.1f} ms, "
                    "foreseen {:.1f} ms, built {:.1f} ms",
                    n, built.size(), fresh, checked, fast, slow));
    const auto show = [](const char* what, const Candidate& c) {
      Print(fmt::format("    {}: {} {} {}", what, c.algorithm.name,
                        Name(c.algorithm.precision), c.workspace.count()));
    };
    const auto same = [](const Candidate& a, const Candidate& b) {
      return a.algorithm == b.algorithm && a.workspace == b.workspace;
    };
    for (const Candidate& c : foreseen) {
      if (std::ranges::none_of(built,
                               [&](const auto& b) { return same(b, c); }))
        show("foreseen only", c);
    }
    for (const Candidate& c : built) {
      if (std::ranges::none_of(foreseen,
                               [&](const auto& f) { return same(f, c); }))
        show("built only", c);
    }
  }
  return {};
}

Status CompareAllListings(const Settings& settings,
                          cudnn::CudnnHandle& handle) {
  for (const std::string& text : settings.compared) {
    UCUDNN_ASSIGN_OR_RETURN(const ConvProblem problem, ParseConvProblem(text));
    UCUDNN_RETURN_IF_ERROR(CompareListings(handle, problem, settings.batch));
  }
  return {};
}

Status SurveyEngines(const Settings& settings, cudnn::CudnnHandle& handle) {
  for (const Layout layout : kLayouts) {
    for (const Precision precision : kPrecisions) {
      for (const ConvOp op : kConvOps) {
        UCUDNN_RETURN_IF_ERROR(SurveyProblem(handle,
                                             {op, Conv2(), precision, layout},
                                             BatchSize(settings.batch)));
      }
    }
  }
  return {};
}

Status ProbeProblem(Device& device, const ConvProblem& problem,
                    const Settings& settings, const Memory& memory) {
  const BatchSize batch(settings.batch);
  Print(fmt::format("\n{} batch {}", ToString(problem), batch.count()));
  const auto begun = std::chrono::steady_clock::now();
  const auto candidates = device.ListAlgorithms(problem, batch);
  const double listed = MillisecondsSince(begun);
  if (!candidates) {
    Print("  " + Text(candidates.error()));
    if (candidates.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(candidates.error());
    }
    return {};
  }
  Print(fmt::format("  {} algorithms listed in {:.1f} ms", candidates->size(),
                    listed));
  for (const Candidate& c : *candidates) {
    const std::string name = fmt::format(
        "  {:<28} {:<9} {:<11} {:>10}", c.algorithm.name, c.algorithm.math,
        Name(c.algorithm.precision), HumanBytes(c.workspace));
    if (settings.list_only) {
      Print(name);
      continue;
    }
    const auto measured = Measure(device, problem, batch, c, memory);
    Print(name + "  " + (measured ? *measured : Text(measured.error())));
    if (!measured && measured.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(measured.error());
    }
  }
  return {};
}

Status ProbeDevice(Device& device, const Settings& settings) {
  const DeviceInfo& info = device.info();
  Print(fmt::format("{}\n  {}\n  driver {}", info.id, ToString(info.kind),
                    info.driver));
  const std::string busy = device.BusyWith();
  Print("  used by: " + (busy.empty() ? "nobody else" : busy));
  const auto print_state = [&] {
    const auto state = ReadGpuState(info.id);
    Print(state ? fmt::format("  clocks: SM {} MHz, memory {} MHz; slowed by: "
                              "{} ({:#x})",
                              state->sm_clock_mhz, state->memory_clock_mhz,
                              state->throttle_reasons == 0
                                  ? "nothing"
                                  : ThrottleText(state->throttle_reasons),
                              state->throttle_reasons)
                : "  clocks: " + Text(state.error()));
  };
  print_state();
  UCUDNN_ASSIGN_OR_RETURN(const Memory memory,
                          Operands(device, settings.batch));
  for (const Layout layout : kLayouts) {
    if (!settings.layout.empty() && settings.layout != Name(layout)) continue;
    for (const Precision precision : kPrecisions) {
      if (!settings.precision.empty() &&
          settings.precision != Name(precision)) {
        continue;
      }
      for (const ConvOp op : kConvOps) {
        if (!settings.op.empty() && settings.op != Name(op)) continue;
        UCUDNN_RETURN_IF_ERROR(ProbeProblem(
            device, {op, Conv2(), precision, layout}, settings, memory));
      }
    }
  }
  print_state();
  return {};
}

int Main(const Settings& settings) {
  if (settings.engines || !settings.compared.empty()) {
    const auto survey = settings.engines ? SurveyEngines : CompareAllListings;
    const Status surveyed = WithHandle(
        [&](cudnn::CudnnHandle& handle) { return survey(settings, handle); });
    if (!surveyed) fmt::print(stderr, "{}\n", Text(surveyed.error()));
    return surveyed ? 0 : 1;
  }
  CudnnOptions options;
  options.graph = settings.graph || settings.only_graph;
  options.legacy = !settings.only_graph;
  options.on_failure = [](int ordinal, const Error& error) {
    Print(fmt::format("GPU {} cannot be opened: {}", ordinal, Text(error)));
  };
  if (!settings.slice.empty()) {
    const auto sms = ParseSlice(settings.slice);
    if (!sms) {
      fmt::print(stderr, "--slice: {}\n", sms.error().message);
      return 2;
    }
    options.slice_sms = *sms;
  }
  const auto devices = OpenCudnnDevices(options);
  if (!devices) {
    fmt::print(stderr, "{}\n", Text(devices.error()));
    return 1;
  }
  int status = devices->empty() ? 1 : 0;
  for (const auto& device : *devices) {
    if (const Status probed = ProbeDevice(*device, settings); !probed) {
      fmt::print(stderr, "{}\n", Text(probed.error()));
      status = 1;
    }
  }
  return status;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) {
  ucudnn::Settings settings;
  CLI::App app("What cuDNN offers for AlexNet's conv2 on each GPU");
  app.add_option("--batch", settings.batch, "images")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--op", settings.op, "only this operation");
  app.add_option("--precision", settings.precision, "only this precision");
  app.add_option("--layout", settings.layout, "only this layout");
  app.add_option("--slice", settings.slice, "on a slice, such as sm=32");
  app.add_flag("--graph", settings.graph, "the graph API's engines too");
  app.add_flag("--only-graph", settings.only_graph, "those alone");
  app.add_flag("--engines", settings.engines,
               "what checking the graph API's engines found, on GPU 0");
  app.add_option(
      "--listings", settings.compared,
      "problems, such as forward-c64-...: their engines foreseen and "
      "built, for batches up to --batch, on GPU 0");
  app.add_flag("--list", settings.list_only, "list, run nothing");
  CLI11_PARSE(app, argc, argv);
  return ucudnn::Main(settings);
}
