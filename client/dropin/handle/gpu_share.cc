#include "client/dropin/handle/gpu_share.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <thread>
#include <utility>

#include "client/dropin/ask/ask_coordinator.h"
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/stream_graph.h"

namespace ucudnn::cudnn {
namespace {

// Prints each text once in a process, however many handles come and go.
void WarnOnce(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& printed = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!printed.insert(text).second) return;
  std::fprintf(stderr, "ucudnn: %s\n", text.c_str());
}

// Asks the coordinators in the settings; empty if there are none.
LocalOptions::Ask AskOf(const DropInSettings& settings,
                        const std::string& kind) {
  if (settings.coordinators.empty()) return {};
  CoordinatorAsker::Options options;
  options.credentials = settings.credentials;
  if (!settings.verbose) {  // the planner prints all
    options.warn = [](const std::string& error) {
      WarnOnce(error + "; convolutions are measured here");
    };
  }
  const auto asker = std::make_shared<CoordinatorAsker>(settings.coordinators,
                                                        std::move(options));
  return [asker, kind](const ConvProblem& problem) {
    return asker->Ask(kind, problem);
  };
}

}  // namespace

GpuShare::GpuShare(const Libraries& libraries, std::unique_ptr<Device> device,
                   const DropInSettings& settings)
    : libraries_(libraries),
      device_(std::move(device)),
      planner_({.settings = settings,
                .kind = ToString(device_->info().kind),
                .ask = AskOf(settings, ToString(device_->info().kind))}),
      enqueueing_(settings.graph_memory > Bytes() && HasGraphs(libraries.driver)
                      ? Enqueueing::kReplayed
                      : Enqueueing::kDirect),
      graph_budget_(settings.graph_memory) {
  const bool unused = !planner_.plan_file_problem().empty();
  if (unused) {
    WarnOnce("the plan file is not used: " + planner_.plan_file_problem());
  }
  if (settings.network_file.empty()) return;
  if (settings.total_workspace == Bytes()) {
    WarnOnce(
        "UCUDNN_NETWORK_FILE is not used: it divides what "
        "UCUDNN_TOTAL_WORKSPACE_SIZE gives, which is not set");
    return;
  }
  if (unused && settings.network_file == settings.plan_file) return;
  auto named =
      NamedNetwork::Read(settings.network_file, ToString(device_->info().kind));
  if (named) {
    named_ = *std::move(named);
  } else {
    WarnOnce("the network file is not used: " + named.error().message);
  }
}

Result<std::shared_ptr<GpuShare>> GpuShare::Of(CUcontext context,
                                               const DropInSettings& settings) {
  // Never destroyed: handles may outlive main.
  static auto& mutex = *new std::mutex;
  static auto& shares = *new std::map<CUcontext, std::weak_ptr<GpuShare>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<GpuShare>& known = shares[context];
  if (auto share = known.lock()) return share;
  UCUDNN_ASSIGN_OR_RETURN(const Libraries* libraries, LoadedLibraries());
  CudnnOptions options;
  options.graph = false;
  options.branches = settings.branches;
  UCUDNN_ASSIGN_OR_RETURN(auto device, OpenCudnnDeviceIn(context, options));
  std::shared_ptr<GpuShare> share(
      new GpuShare(*libraries, std::move(device), settings));
  known = share;
  return share;
}

LocalSolver::Bench GpuShare::Bench() {
  return [this]() -> Result<Device*> { return device_.get(); };
}

Result<KernelPlan> GpuShare::Plan(const ConvProblem& problem, BatchSize batch,
                                  Bytes limit, Enqueueing enqueueing) {
  const std::lock_guard lock(device_mutex_);
  return planner_.Plan(problem, batch, limit, Bench(), enqueueing);
}

Result<bool> GpuShare::Beats(const KernelPlan& plan, BatchSize batch,
                             const Algorithm& algorithm,
                             Enqueueing enqueueing) {
  const std::lock_guard lock(device_mutex_);
  return planner_.Beats(plan, batch, algorithm, Bench(), enqueueing);
}

Status GpuShare::Announce(const Owner& owner,
                          const LocalSolver::Kernel& kernel) {
  UCUDNN_RETURN_IF_ERROR(Plan(kernel.problem, kernel.batch,
                              settings().total_workspace, enqueueing_));
  const std::lock_guard lock(arena_mutex_);
  return slots_.Announce(owner, kernel);
}

Result<GpuShare::Segment> GpuShare::SegmentOf(const Owner& owner,
                                              const LocalSolver::Kernel& kernel,
                                              bool tells_layers) {
  UCUDNN_RETURN_IF_ERROR(Announce(owner, kernel));
  const std::lock_guard lock(arena_mutex_);
  const SegmentTable::Slot& slot = slots_.At(owner);
  if (slot.epoch != epoch()) {
    if (frozen_) {
      return Fail(Code::kFailedPrecondition,
                  "the program has captured segments of the workspace, so no "
                  "more are assigned");
    }
    slots_.Reserve(named_.KernelsLike(kernel, tells_layers));
    UCUDNN_RETURN_IF_ERROR(Redivide());
  }
  Segment segment;
  segment.plan = slot.plan;
  segment.epoch = epoch();
  segment.size = slot.plan.workspace;
  if (segment.size > Bytes()) {
    segment.workspace =
        static_cast<char*>(arena_.data()) + slot.plan.offset->count();
  }
  return segment;
}

Result<std::vector<KernelPlan>> GpuShare::Divide(Bytes total) {
  auto plans = planner_.Divide(slots_.Kernels(), total, Bench(), enqueueing_);
  // Kernels that may never run must not keep the others from being planned.
  if (plans || !slots_.DropReserved()) return plans;
  return planner_.Divide(slots_.Kernels(), total, Bench(), enqueueing_);
}

Status GpuShare::Clear(std::uint64_t next) {
  epoch_ = next;
  for (const ArenaUser* user : users_) {
    while (user->inside()) std::this_thread::yield();
  }
  return Call(libraries_.driver, libraries_.driver.CtxSynchronize);
}

Status GpuShare::Redivide() {
  const std::lock_guard lock(device_mutex_);
  const std::uint64_t before = epoch();
  bool moved = false;
  Status divided = Clear(before + 1);
  if (divided) divided = Move(before + 1, &moved);
  if (!divided && !moved) epoch_ = before;
  return divided;
}

Status GpuShare::Move(std::uint64_t next, bool* moved) {
  for (Bytes total = settings().total_workspace;;) {
    UCUDNN_ASSIGN_OR_RETURN(auto plans, Divide(total));
    Bytes end;
    for (const KernelPlan& plan : plans) {
      end = std::max(end, *plan.offset + plan.workspace);
    }
    *moved = true;
    if (end > arena_.size()) {
      arena_.Reset();
      auto arena = device_->Allocate(end);
      if (!arena) {
        // Out of memory: try a smaller arena.
        if (arena.error().code != Code::kResourceExhausted) {
          return tl::unexpected<Error>(std::move(arena).error());
        }
        total = end / 2;
        continue;
      }
      arena_ = *std::move(arena);
    }
    slots_.Assign(std::move(plans), next);
    return {};
  }
}

void GpuShare::Register(ArenaUser* user) {
  const std::lock_guard lock(arena_mutex_);
  users_.push_back(user);
}

bool GpuShare::Freeze(std::uint64_t epoch) {
  // Never destroyed: the program's graphs may outlive all handles.
  static auto& kept = *new std::vector<std::shared_ptr<GpuShare>>;
  static auto& kept_mutex = *new std::mutex;
  const std::lock_guard lock(arena_mutex_);
  if (epoch_ != epoch) return false;
  if (frozen_) return true;
  frozen_ = true;
  const std::lock_guard kept_lock(kept_mutex);
  kept.push_back(shared_from_this());
  return true;
}

void GpuShare::Forget(const void* handle, const ArenaUser* user) {
  const std::lock_guard lock(arena_mutex_);
  std::erase(users_, user);
  slots_.Forget(handle);
}

}  // namespace ucudnn::cudnn
