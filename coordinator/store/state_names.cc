// The names of states and formats, as the database and the wire have them.

#include <fmt/format.h>

#include <array>

#include "coordinator/store/agents.h"
#include "coordinator/store/jobs.h"
#include "coordinator/store/plans.h"
#include "coordinator/store/tasks.h"

namespace ucudnn {
namespace {

// In the order of the enum's values.
constexpr std::array<std::string_view, 2> kAgentStates = {"online", "gone"};
constexpr std::array<std::string_view, 3> kDeviceStates = {"idle", "busy",
                                                           "lost"};
constexpr std::array<std::string_view, 2> kNetworkFormats = {"csv", "onnx"};
constexpr std::array<std::string_view, 5> kTaskStates = {
    "pending", "leased", "done", "failed", "cancelled"};
constexpr std::array<std::string_view, 3> kJobStates = {"running", "finished",
                                                        "lost"};

template <class Enum, std::size_t kCount>
Result<Enum> Parse(const std::array<std::string_view, kCount>& names,
                   std::string_view what, std::string_view text) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return Fail(Code::kInvalidArgument, "'{}' is not {}: {}", text, what,
              fmt::join(names, ", "));
}

}  // namespace

std::string_view Name(AgentState state) {
  return kAgentStates.at(static_cast<std::size_t>(state));
}
std::string_view Name(DeviceState state) {
  return kDeviceStates.at(static_cast<std::size_t>(state));
}
std::string_view Name(NetworkFormat format) {
  return kNetworkFormats.at(static_cast<std::size_t>(format));
}
std::string_view Name(TaskState state) {
  return kTaskStates.at(static_cast<std::size_t>(state));
}
std::string_view Name(JobState state) {
  return kJobStates.at(static_cast<std::size_t>(state));
}

Result<AgentState> ParseAgentState(std::string_view text) {
  return Parse<AgentState>(kAgentStates, "an agent's state", text);
}
Result<DeviceState> ParseDeviceState(std::string_view text) {
  return Parse<DeviceState>(kDeviceStates, "a device's state", text);
}
Result<NetworkFormat> ParseNetworkFormat(std::string_view text) {
  return Parse<NetworkFormat>(kNetworkFormats, "a network's format", text);
}
Result<TaskState> ParseTaskState(std::string_view text) {
  return Parse<TaskState>(kTaskStates, "a task's state", text);
}
Result<JobState> ParseJobState(std::string_view text) {
  return Parse<JobState>(kJobStates, "a job's state", text);
}

}  // namespace ucudnn
