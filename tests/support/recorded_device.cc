#include "tests/support/recorded_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/host_memory.h"

namespace ucudnn {
namespace {

// The recorded points of one convolution, which several layers may share.
struct Recording {
  std::string layer;  // the first such layer
  ConvOp op = ConvOp::kForward;
  std::vector<MeasuredPoint> points;

  std::string Name(const ConvProblem& problem) const {
    return fmt::format("{} {} ({}, {})", layer, ucudnn::Name(op),
                       ucudnn::Name(problem.precision),
                       ucudnn::Name(problem.layout));
  }
};

using Recordings = std::map<ConvProblem, Recording>;

class RecordedConvolution : public Convolution {
 public:
  RecordedConvolution(const MeasuredPoint& point, Nanoseconds* clock)
      : point_(point), clock_(clock) {}

  Bytes workspace() const override { return point_.workspace; }

  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override {
    if (workspace_size < point_.workspace ||
        (workspace == nullptr && point_.workspace > Bytes())) {
      return Fail(Code::kInvalidArgument,
                  "a workspace of {} bytes is given, {} are needed",
                  workspace == nullptr ? 0 : workspace_size.count(),
                  point_.workspace.count());
    }
    if (args.a == nullptr || args.b == nullptr || args.out == nullptr) {
      return Fail(Code::kInvalidArgument, "an operand is a null pointer");
    }
    *clock_ += args.beta == 0 ? point_.time : AddingTime(point_);
    return {};
  }

 private:
  const MeasuredPoint point_;
  Nanoseconds* const clock_;
};

class RecordedDevice : public Device {
 public:
  RecordedDevice(DeviceInfo info, std::string network, Recordings recordings)
      : info_(std::move(info)),
        network_(std::move(network)),
        recordings_(std::move(recordings)) {}

  const DeviceInfo& info() const override { return info_; }

  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto points, PointsOf(problem, batch));
    std::vector<Candidate> candidates;
    for (const MeasuredPoint& point : points) {
      candidates.push_back({point.algorithm, point.workspace});
    }
    return candidates;
  }

  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto points, PointsOf(problem, batch));
    for (const MeasuredPoint& point : points) {
      if (point.algorithm == algorithm) {
        return std::make_unique<RecordedConvolution>(point, &clock_);
      }
    }
    return Fail(Code::kNotFound,
                "algorithm '{}' (math '{}', {}) was not recorded for {}, batch "
                "{}, on {}",
                algorithm.name, algorithm.math, Name(algorithm.precision),
                ToString(problem), batch.count(), info_.id);
  }

  Result<DeviceBuffer> Allocate(Bytes size) override {
    return AllocateHostMemory(size);
  }

  Status Upload(void* device, const void* host, Bytes size) override {
    return Copy(device, host, size);
  }

  Status Download(void* host, const void* device, Bytes size) override {
    return Copy(host, device, size);
  }

  Status Fill(void* device, unsigned char byte, Bytes size) override {
    if (size > Bytes()) std::memset(device, byte, std::size_t(size.count()));
    return {};
  }

  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    const Nanoseconds start = clock_;
    UCUDNN_RETURN_IF_ERROR(work());
    return clock_ - start;
  }

  Status Synchronize() override { return {}; }

 private:
  static Status Copy(void* to, const void* from, Bytes size) {
    if (size > Bytes()) std::memcpy(to, from, std::size_t(size.count()));
    return {};
  }

  // The points of a problem at a batch, of every admitted precision; the
  // fastest if an algorithm was recorded with several workspaces.
  Result<std::vector<MeasuredPoint>> PointsOf(const ConvProblem& problem,
                                              BatchSize batch) const {
    const Recording* any = nullptr;
    std::vector<MeasuredPoint> points;
    std::set<BatchSize> batches;
    for (const Precision precision : kPrecisions) {
      if (!Admits(problem.precision, precision)) continue;
      ConvProblem offered = problem;
      offered.precision = precision;
      const auto found = recordings_.find(offered);
      if (found == recordings_.end()) continue;
      any = &found->second;
      for (const MeasuredPoint& point : found->second.points) {
        batches.insert(point.batch);
        if (point.batch != batch) continue;
        const auto known = std::find_if(
            points.begin(), points.end(),
            [&](const auto& p) { return p.algorithm == point.algorithm; });
        if (known == points.end()) {
          points.push_back(point);
        } else if (point.time < known->time) {
          *known = point;
        }
      }
    }
    if (any == nullptr) {
      return Fail(Code::kNotFound, "{} was not recorded on {} (network '{}')",
                  ToString(problem), info_.id, network_);
    }
    if (points.empty()) {
      std::string recorded;
      for (const BatchSize b : batches) {
        recorded +=
            fmt::format("{}{}", recorded.empty() ? "" : ", ", b.count());
      }
      return Fail(Code::kNotFound,
                  "batch {} of {} was not recorded on {}; recorded are {}",
                  batch.count(), any->Name(problem), info_.id, recorded);
    }
    return points;
  }

  const DeviceInfo info_;
  const std::string network_;
  const Recordings recordings_;
  Nanoseconds clock_{0};
};

// The device to replay.
Result<std::string> ChooseDevice(const Profile& profile,
                                 std::string_view device) {
  std::set<std::string> names;
  std::string listed;
  for (const KernelProfile& kernel : profile.kernels) {
    if (names.insert(kernel.id.device).second) {
      listed +=
          fmt::format("{}'{}'", listed.empty() ? "" : ", ", kernel.id.device);
    }
  }
  if (device.empty() && names.size() > 1) {
    return Fail(Code::kInvalidArgument,
                "the profile holds several devices; choose one of {}", listed);
  }
  if (names.empty() ||
      (!device.empty() && !names.contains(std::string(device)))) {
    return Fail(Code::kNotFound, "device '{}' is not in the profile; it has {}",
                device, names.empty() ? "none" : listed);
  }
  return device.empty() ? *names.begin() : std::string(device);
}

}  // namespace

Result<std::unique_ptr<Device>> OpenRecordedDevice(const Profile& profile,
                                                   const Network& network,
                                                   std::string_view device) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string name,
                          ChooseDevice(profile, device));
  Recordings recordings;
  for (const KernelProfile& kernel : profile.kernels) {
    const KernelId& id = kernel.id;
    if (id.device != name || id.network != network.name) continue;
    const auto layer =
        std::find_if(network.layers.begin(), network.layers.end(),
                     [&](const ConvLayer& l) { return l.name == id.layer; });
    if (layer == network.layers.end()) {
      return Fail(Code::kInvalidArgument,
                  "layer '{}' of the profile is not in network '{}'", id.layer,
                  network.name);
    }
    // KernelsOf knows which kernel a layer's operation runs.
    Network alone{network.name, {*layer}};
    alone.layers[0].needs_input_gradient = true;
    for (const Kernel& k : KernelsOf(alone, id.precision, id.layout)) {
      if (k.op != id.op) continue;
      Recording& recording = recordings[k.problem];
      if (recording.layer.empty()) {
        recording.layer = id.layer;
        recording.op = id.op;
      }
      recording.points.insert(recording.points.end(), kernel.points.begin(),
                              kernel.points.end());
    }
  }
  if (recordings.empty()) {
    return Fail(Code::kNotFound,
                "nothing was recorded of network '{}' on device '{}'",
                network.name, name);
  }
  DeviceInfo info;
  info.id = fmt::format("recorded-{}", name);
  const Result<DeviceKind> kind = ParseDeviceKind(name);
  if (kind) {
    info.kind = *kind;
  } else {
    info.kind.model = name;
    info.kind.library = "recorded";
  }
  info.driver = "recorded profile";
  return std::make_unique<RecordedDevice>(std::move(info), network.name,
                                          std::move(recordings));
}

}  // namespace ucudnn
