#include "client/ranks/rank_device.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/service/host.h"
#include "client/config/variables.h"
#include "device/registry.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

// The slice of its GPU that a rank runs in; none by default.
constexpr Variable<std::int64_t> kSliceVariable = {
    "UCUDNN_SLICE", [](const std::string& text) -> Result<std::int64_t> {
      return ParseGpuSlice(text);
    }};

std::string Encode(const RankSight& sight, const Status& status) {
  const Json json = {
      {"host", sight.host},
      {"kind", static_cast<int>(sight.wish.kind)},
      {"ordinal", sight.wish.ordinal},
      {"threads", sight.wish.threads},
      {"uuid", sight.wish.uuid},
      {"gpus", sight.gpus},
      {"current", sight.current},
      {"error", status ? std::string() : status.error().message}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RankSight> Decode(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (const std::string error = json.at("error"); !error.empty()) {
      return Fail(Code::kInvalidArgument, "{}", error);
    }
    RankSight sight;
    sight.host = json.at("host");
    sight.wish.kind = static_cast<DeviceWish::Kind>(json.at("kind").get<int>());
    sight.wish.ordinal = json.at("ordinal");
    sight.wish.threads = json.at("threads");
    sight.wish.uuid = json.at("uuid");
    sight.gpus = json.at("gpus").get<std::vector<std::string>>();
    sight.current = json.at("current");
    return sight;
  } catch (const Json::exception& error) {
    return Fail(Code::kInvalidArgument, "runs another version of ucudnn: {}",
                error.what());
  }
}

Result<std::unique_ptr<Device>> Open(const DeviceChoice& choice,
                                     const RankDeviceOptions& rank) {
  DeviceOptions options;
  options.gpus = choice.gpu >= 0;
  options.quick_listing = !rank.all_algorithms;
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
    return Fail(Code::kInternal, "device {} of {} is not there", index,
                devices.size());
  }
  return std::move(devices[index]);
}

}  // namespace

Result<RankDevice> OpenRankDevice(Ranks& ranks,
                                  const RankDeviceOptions& options,
                                  Ranks::Deadline deadline) {
  RankSight mine;
  mine.host = HostName();
  Status valid;
  if (auto parsed = ParseDeviceWish(options.device)) {
    mine.wish = *std::move(parsed);
  } else {
    valid = tl::unexpected<Error>(std::move(parsed).error());
  }
  if (!options.gpus) mine.wish.kind = DeviceWish::Kind::kCpu;
  if (mine.wish.threads == 0) mine.wish.threads = options.threads;
  if (mine.wish.kind != DeviceWish::Kind::kCpu) {
    GpusSeen seen = SeeGpus();
    mine.gpus = std::move(seen.uuids);
    mine.current = seen.current;
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          ranks.AllGather(Encode(mine, valid), deadline));
  std::vector<RankSight> sights;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    Result<RankSight> sight = Decode(texts[r]);
    if (!sight) return Within(fmt::format("rank {}", r), sight.error());
    sights.push_back(*std::move(sight));
  }
  // The same on all ranks, an error too.
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<DeviceChoice> choices,
                          ChooseDevices(sights));
  Result<std::unique_ptr<Device>> device =
      Open(choices[static_cast<std::size_t>(ranks.rank())], options);
  const Status opened =
      device ? Status() : Status(tl::unexpected<Error>(device.error()));
  UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(opened, deadline));
  if (!all) return tl::unexpected<Error>(all.error());
  return RankDevice{mine.host, *std::move(device)};
}

}  // namespace ucudnn
