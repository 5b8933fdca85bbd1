#include "client/ranks/rank_device.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/service/host.h"
#include "client/config/variables.h"
#include "device/open_devices.h"

namespace ucudnn {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceRequest, kind, ordinal, threads, uuid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VisibleDevices, host, request, gpus, current)

namespace {

using Json = nlohmann::json;

// The slice of its GPU that a rank runs on; none by default.
constexpr Variable<std::int64_t> kSliceVariable = {
    "UCUDNN_SLICE", [](const std::string& text) -> Result<std::int64_t> {
      return ParseGpuSlice(text);
    }};

std::string Encode(const VisibleDevices& devices, const Status& status) {
  const Json json = {
      {"devices", devices},
      {"error", status ? std::string() : status.error().message}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<VisibleDevices> Decode(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (const std::string error = json.at("error"); !error.empty()) {
      return Fail(Code::kInvalidArgument, "{}", error);
    }
    return json.at("devices").get<VisibleDevices>();
  } catch (const Json::exception& error) {
    return Fail(Code::kInvalidArgument,
                "runs a different version of ucudnn: {}", error.what());
  }
}

Result<std::unique_ptr<Device>> Open(const DeviceChoice& choice,
                                     const RankDeviceOptions& rank) {
  DeviceOptions options;
  options.gpus = choice.gpu >= 0;
  options.quick_listing = true;
  std::size_t index = 0;
  if (options.gpus) {
    options.gpu_ordinals = {choice.gpu};
    UCUDNN_ASSIGN_OR_RETURN(const auto sms,
                            ReadVariable(ProcessEnvironment(), kSliceVariable));
    if (sms) options.gpu_slices = {*sms};
  } else {
    options.cpu_devices =
        rank.cpu_devices > 0 ? rank.cpu_devices : choice.cpu_devices;
    options.cpu_threads = choice.cpu_threads;
    index = static_cast<std::size_t>(choice.cpu_index % options.cpu_devices);
  }
  UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenDevices(options));
  if (index >= devices.size()) {
    return Fail(Code::kInternal, "there is no device {} among {}", index,
                devices.size());
  }
  return std::move(devices[index]);
}

}  // namespace

Result<RankDevice> OpenRankDevice(Ranks& ranks,
                                  const RankDeviceOptions& options,
                                  Ranks::Deadline deadline) {
  VisibleDevices mine;
  mine.host = HostName();
  Status valid;
  if (auto parsed = ParseDeviceRequest(options.device)) {
    mine.request = *std::move(parsed);
  } else {
    valid = tl::unexpected<Error>(std::move(parsed).error());
  }
  if (!options.gpus) mine.request.kind = DeviceRequest::Kind::kCpu;
  if (mine.request.threads == 0) mine.request.threads = options.threads;
  if (mine.request.kind != DeviceRequest::Kind::kCpu) {
    GpusSeen seen = SeeGpus();
    mine.gpus = std::move(seen.uuids);
    mine.current = seen.current;
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          ranks.AllGather(Encode(mine, valid), deadline));
  std::vector<VisibleDevices> visible;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    Result<VisibleDevices> decoded = Decode(texts[r]);
    if (!decoded) return Within(fmt::format("rank {}", r), decoded.error());
    visible.push_back(*std::move(decoded));
  }
  // Returns the same on all ranks, errors included.
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<DeviceChoice> choices,
                          ChooseDevices(visible));
  Result<std::unique_ptr<Device>> device =
      Open(choices[static_cast<std::size_t>(ranks.rank())], options);
  const Status opened =
      device ? Status() : Status(tl::unexpected<Error>(device.error()));
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(opened, deadline));
  if (!all) return tl::unexpected<Error>(all.error());
  return RankDevice{mine.host, *std::move(device)};
}

}  // namespace ucudnn
