#include "client/c_api/options.h"

#include <array>
#include <chrono>

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

Status TakeMs(const std::string& text, milliseconds* value) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t ms, ParseInteger(text, 0, kMaxMs));
  *value = milliseconds(ms);
  return {};
}

// Any option of memory plans asks for them.
JobMemory& Memory(Options* options) {
  std::optional<JobMemory>& memory = options->session.memory;
  return memory ? *memory : memory.emplace();
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

struct Option {
  std::string_view name;
  Status (*set)(Options*, const std::string&);
};

constexpr std::
    array
        kOptions =
            {
                Option{"batch",
                       [](Options* o, const std::string& text) -> Status {
                         UCUDNN_ASSIGN_OR_RETURN(
                             const std::int64_t batch,
                             ParseInteger(text, 1, kMaxBatchSize.count()));
                         o->session.batch = BatchSize(batch);
                         return {};
                       }},
                Option{"network",
                       [](Options* o, const std::string& text) -> Status {
                         o->network_name = text;
                         return {};
                       }},
                Option{"network_file",
                       [](Options* o, const std::string& text) -> Status {
                         return ReadNetwork(text, &o->session);
                       }},
                Option{"network_csv",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(
                             ParseNetworkCsv(text, "network", "network_csv"),
                             &o->session.network);
                       }},
                Option{"precision",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(ParsePrecision(text),
                                     &o->session.precision);
                       }},
                Option{"layout",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(ParseLayout(text), &o->session.layout);
                       }},
                Option{"workspace_limit",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(ParseBytes(text),
                                     &o->session.workspace_limit);
                       }},
                Option{"total_workspace",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(ParseBytes(text),
                                     &o->session.total_workspace);
                       }},
                Option{"memory_budget",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(ParseBudgets(text), &Memory(o).budgets);
                       }},
                Option{"memory_policy",
                       [](Options* o, const std::string& text) -> Status {
                         Memory(o).policy = text;
                         return {};
                       }},
                Option{"recompute",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(internal::ParseSwitch(text),
                                     &Memory(o).recompute);
                       }},
                Option{"offload_weights",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(internal::ParseSwitch(text),
                                     &Memory(o).offload_weights);
                       }},
                Option{"momentum",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(internal::ParseSwitch(text),
                                     &Memory(o).momentum);
                       }},
                Option{"batch_policy",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(ParseBatchPolicy(text),
                                     &o->session.policy);
                       }},
                Option{"max_error",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(ParseMaxError(text),
                                     &o->session.max_error);
                       }},
                Option{"auto_replan",
                       [](Options* o, const std::string& text) -> Status {
                         return Take(internal::ParseSwitch(text),
                                     &o->session.auto_replan);
                       }},
                Option{"coordinators",
                       [](Options* o, const std::string& text) -> Status {
                         if (!text.empty())
                           UCUDNN_RETURN_IF_ERROR(CheckCoordinators(text));
                         o->session.coordinators = text;
                         return {};
                       }},
                Option{"plan_file",
                       [](Options* o, const std::string& text) -> Status {
                         o->session.plan_file = text;
                         return {};
                       }},
                Option{"cache_dir",
                       [](Options* o, const std::string& text) -> Status {
                         o->session.cache_dir = text;
                         return {};
                       }},
                Option{"job_name",
                       [](Options* o, const std::string& text) -> Status {
                         o->session.job_name = text;
                         return {};
                       }},
                Option{"device",
                       [](Options* o, const std::string& text) -> Status {
                         UCUDNN_RETURN_IF_ERROR(ParseDeviceRequest(text));
                         o->device = text;
                         return {};
                       }},
                Option{"ask_within_ms",
                       [](Options* o, const std::string& text) -> Status {
                         return TakeMs(text, &o->session.ask_within);
                       }},
                Option{"await_measurements_ms",
                       [](Options* o, const std::string& text) -> Status {
                         return TakeMs(text, &o->session.await_measurements);
                       }},
                Option{"agree_within_ms",
                       [](Options* o, const std::string& text) -> Status {
                         return TakeMs(text, &o->session.agree_within);
                       }},
};

}  // namespace

Status SetOption(Options* options, std::string_view name,
                 const std::string& value) {
  std::string known;
  for (const Option& option : kOptions) {
    if (option.name == name) {
      Status set = option.set(options, value);
      // Some parsers name the option themselves.
      if (set || set.error().message.starts_with(name)) return set;
      return Within(name, std::move(set).error());
    }
    known += (known.empty() ? "" : ", ") + std::string(option.name);
  }
  return Fail(Code::kInvalidArgument, "unknown option '{}'; accepted: {}",
              Excerpt(name), known);
}

}  // namespace ucudnn::c_api
