#include "client/c_api/options.h"

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/onnx/onnx.h"
#include "base/text.h"
#include "client/config/coordinators.h"
#include "client/config/variables.h"
#include "client/ranks/device_match.h"

namespace ucudnn::c_api {
namespace {

using std::chrono::milliseconds;

// Longer than anybody waits, and short enough that sums of times stay in range.
constexpr std::int64_t kMaxMs = std::int64_t{7} * 24 * 3600 * 1000;

template <class T, class U>
Status Take(Result<T> parsed, U* value) {
  if (!parsed) return tl::unexpected<Error>(std::move(parsed).error());
  *value = *std::move(parsed);
  return {};
}

Status ReadNetwork(const std::string& path, SessionOptions* session) {
  UCUDNN_ASSIGN_OR_RETURN(std::string content, ReadNetworkContents(path, {}));
  UCUDNN_ASSIGN_OR_RETURN(
      session->network,
      ParseNetwork(content, NetworkNameOf(path), BatchSize(1), path));
  session->network_content.clear();
  if (IsNetworkCsv(content)) return {};
  return Take(WithoutWeights(content, path), &session->network_content);
}

// Sets an option to the value that a text stands for.
using Set = std::function<Status(const std::string& text)>;

template <class Parse, class T>
Set ToParsed(Parse parse, T* value) {
  return [=](const std::string& text) { return Take(parse(text), value); };
}

Set ToMs(milliseconds* value) {
  return [value](const std::string& text) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t ms,
                            ParseInteger(text, 0, kMaxMs));
    *value = milliseconds(ms);
    return {};
  };
}

// Any option of memory plans asks for them.
template <class Parse, class T>
Set ToMemory(Parse parse, Options* options, T JobMemory::*member) {
  return [=](const std::string& text) -> Status {
    T value{};
    UCUDNN_RETURN_IF_ERROR(Take(parse(text), &value));
    std::optional<JobMemory>& memory = options->session.memory;
    if (!memory) memory.emplace();
    (*memory).*member = std::move(value);
    return {};
  };
}

Result<BatchSize> ParseBatch(std::string_view text) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t batch,
                          ParseInteger(text, 1, kMaxBatchSize.count()));
  return BatchSize(batch);
}

Result<Network> ParseNetworkText(std::string_view text) {
  return ParseNetworkCsv(text, "network", "network_csv");
}

Result<std::string> CheckedDevice(std::string_view text) {
  UCUDNN_RETURN_IF_ERROR(ParseDeviceRequest(text));
  return std::string(text);
}

Result<std::string> CheckedCoordinators(const std::string& text) {
  if (!text.empty()) UCUDNN_RETURN_IF_ERROR(CheckCoordinators(text));
  return text;
}

std::vector<std::pair<std::string_view, Set>> AllOf(Options* o) {
  SessionOptions& session = o->session;
  return {
      {"batch", ToParsed(&ParseBatch, &session.batch)},
      {"network", ToParsed(&internal::AsIs, &o->network_name)},
      {"network_file",
       [&session](const std::string& path) {
         return ReadNetwork(path, &session);
       }},
      {"network_csv", ToParsed(&ParseNetworkText, &session.network)},
      {"precision", ToParsed(&ParsePrecision, &session.precision)},
      {"layout", ToParsed(&ParseLayout, &session.layout)},
      {"workspace_limit", ToParsed(&ParseBytes, &session.workspace_limit)},
      {"total_workspace", ToParsed(&ParseBytes, &session.total_workspace)},
      {"memory_budget", ToMemory(&ParseBudgets, o, &JobMemory::budgets)},
      {"memory_policy", ToMemory(&internal::AsIs, o, &JobMemory::policy)},
      {"recompute", ToMemory(&internal::ParseSwitch, o, &JobMemory::recompute)},
      {"offload_weights",
       ToMemory(&internal::ParseSwitch, o, &JobMemory::offload_weights)},
      {"momentum", ToMemory(&internal::ParseSwitch, o, &JobMemory::momentum)},
      {"batch_policy", ToParsed(&ParseBatchPolicy, &session.policy)},
      {"max_error", ToParsed(&ParseMaxError, &session.max_error)},
      {"auto_replan", ToParsed(&internal::ParseSwitch, &session.auto_replan)},
      {"coordinators", ToParsed(&CheckedCoordinators, &session.coordinators)},
      {"plan_file", ToParsed(&internal::AsIs, &session.plan_file)},
      {"cache_dir", ToParsed(&internal::AsIs, &session.cache_dir)},
      {"job_name", ToParsed(&internal::AsIs, &session.job_name)},
      {"device", ToParsed(&CheckedDevice, &o->device)},
      {"ask_within_ms", ToMs(&session.ask_within)},
      {"await_measurements_ms", ToMs(&session.await_measurements)},
      {"agree_within_ms", ToMs(&session.agree_within)},
  };
}

}  // namespace

Status SetOption(Options* options, std::string_view name,
                 const std::string& value) {
  std::string known;
  for (const auto& [option, set] : AllOf(options)) {
    if (option == name) {
      Status done = set(value);
      // Some parsers name the option themselves.
      if (done || done.error().message.starts_with(name)) return done;
      return Within(name, std::move(done).error());
    }
    known += (known.empty() ? "" : ", ") + std::string(option);
  }
  return Fail(Code::kInvalidArgument, "unknown option '{}'; accepted: {}",
              Excerpt(name), known);
}

}  // namespace ucudnn::c_api
