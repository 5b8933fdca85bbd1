#include "ucudnn/solve.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/buffers.h"
#include "base/files/file.h"
#include "base/files/times.h"
#include "base/onnx/network_file.h"
#include "base/plan/plan_json.h"
#include "base/service/time_limit.h"
#include "client/solve/answers.h"
#include "client/solve/joint_memory.h"
#include "client/solve/memory.h"
#include "client/solve/memory_check.h"
#include "client/solve/recorded_step.h"
#include "client/solve/request.h"
#include "client/solve/shared_arena.h"
#include "client/solve/step_shares.h"
#include "solver/arena/allocation.h"
#include "solver/joint.h"
#include "solver/knapsack/wd.h"

#define UCUDNN_EXPORT __attribute__((visibility("default")))

struct ucudnn_solve_profile {
  ucudnn::Profile parsed;
};

namespace ucudnn {
namespace {

using Answer = Result<nlohmann::ordered_json>;

// Of the thread's last call.
std::optional<std::int64_t>& LastLeast() {
  thread_local std::optional<std::int64_t> least;
  return least;
}

int ReturnText(Code code, const std::string& text, char** answer) {
  *answer = static_cast<char*>(std::malloc(text.size() + 1));
  if (*answer == nullptr) return static_cast<int>(Code::kResourceExhausted);
  std::memcpy(*answer, text.c_str(), text.size() + 1);
  return static_cast<int>(code);
}

// Runs `solve` on the input. No exception crosses the C boundary.
template <class Solve>
int Call(const char* input, std::size_t size, const char* request,
         char** answer, Solve solve) {
  if (answer == nullptr) return static_cast<int>(Code::kInvalidArgument);
  *answer = nullptr;
  LastLeast().reset();
  try {
    if (input == nullptr || request == nullptr) {
      return ReturnText(Code::kInvalidArgument,
                        "the input or the request is NULL", answer);
    }
    const Answer result =
        solve(std::string_view(input, size), std::string_view(request));
    if (!result) {
      LastLeast() = result.error().least;
      return ReturnText(result.error().code, result.error().message, answer);
    }
    return ReturnText(
        Code::kOk,
        result->dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace),
        answer);
  } catch (const std::bad_alloc&) {
    return static_cast<int>(Code::kResourceExhausted);
  } catch (const std::exception&) {
    return static_cast<int>(Code::kInternal);
  }
}

// The solvers of a profile's kernels, by the suffix of their functions' names.
Answer AnswerReuse(const Profile& kernels, const WrRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan plan, SolveWr(kernels, request));
  return ToJson(plan, kernels);
}

Answer AnswerDivision(const Profile& kernels, const WrRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan plan, SolveWd(kernels, request));
  return ToJson(plan, kernels);
}

Answer AnswerFront(const Profile& kernels, const WrRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const ParetoFront front,
                          SolveFront(kernels, request));
  return ToJson(front, kernels);
}

Answer AnswerTimes(const Profile& kernels, const WrRequest& request) {
  JointKind kind;
  kind.kernels = kernels;
  kind.workspace_limit = request.workspace_limit;
  kind.policy = request.policy;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<BatchCost> costs,
                          IterationTimes(kind, request.batch, {}));
  nlohmann::ordered_json times = nlohmann::ordered_json::array();
  for (const BatchCost& cost : costs) {
    times.push_back(
        {{"batch", cost.batch.count()}, {"time_us", Microseconds(cost.time)}});
  }
  return nlohmann::ordered_json{{"times", std::move(times)}};
}

using AnswerKernels = Answer (*)(const Profile& kernels,
                                 const WrRequest& request);

// Solves for the kernels that the request selects.
Answer AnswerSelected(const Profile& profile, std::string_view text,
                      AnswerKernels solve) {
  UCUDNN_ASSIGN_OR_RETURN(const DivisionRequest asked,
                          ParseDivisionRequest(text));
  // A selection that matches nothing is an error in the request.
  auto kernels = OfInput(SelectKernels(profile, asked.filter));
  if (kernels) return solve(*kernels, asked.wr);
  return Within("profile", std::move(kernels).error());
}

Answer NoProfile() {
  return Fail(Code::kInvalidArgument, "the profile is NULL");
}

int CallWithProfile(const ucudnn_solve_profile* profile, const char* request,
                    char** answer, AnswerKernels solve) {
  return Call("", 0, request, answer,
              [=](std::string_view, std::string_view text) -> Answer {
                if (profile == nullptr) return NoProfile();
                return AnswerSelected(profile->parsed, text, solve);
              });
}

Answer AnswerArena(const Profile& profile, std::string_view model,
                   std::string_view text) {
  UCUDNN_ASSIGN_OR_RETURN(const SharedArenaRequest asked,
                          ParseSharedArenaRequest(text));
  UCUDNN_ASSIGN_OR_RETURN(
      const std::string sized,
      OfInput(WithShapes(std::string(model), asked.shapes, "network")));
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      OfInput(ParseGraph(sized, asked.network_name, asked.division.wr.batch,
                         "network")));
  UCUDNN_ASSIGN_OR_RETURN(const SharedArenaAnswer solved,
                          SolveSharedArena(graph, profile,
                                           {.wr = asked.division.wr,
                                            .rows = asked.division.filter,
                                            .network_option = "network",
                                            .source = "profile"}));
  return ToJson(solved);
}

}  // namespace
}  // namespace ucudnn

extern "C" {

UCUDNN_EXPORT const char* ucudnn_solve_version(void) { return "1.0"; }

UCUDNN_EXPORT int64_t ucudnn_solve_last_least(void) {
  return ucudnn::LastLeast().value_or(-1);
}

UCUDNN_EXPORT void ucudnn_solve_free(char* answer) { std::free(answer); }

UCUDNN_EXPORT int ucudnn_solve_profile_open(const char* profile,
                                            size_t profile_size,
                                            ucudnn_solve_profile** opened,
                                            char** error) {
  using namespace ucudnn;
  if (opened == nullptr) return static_cast<int>(Code::kInvalidArgument);
  *opened = nullptr;
  const int status =
      Call(profile, profile_size, "", error,
           [opened](std::string_view csv, std::string_view) -> Answer {
             UCUDNN_ASSIGN_OR_RETURN(Profile parsed,
                                     ParseProfileCsv(csv, "profile"));
             *opened = new ucudnn_solve_profile{std::move(parsed)};
             return nullptr;
           });
  if (status == 0) {
    std::free(*error);
    *error = nullptr;
  }
  return status;
}

UCUDNN_EXPORT void ucudnn_solve_profile_close(ucudnn_solve_profile* profile) {
  delete profile;
}

UCUDNN_EXPORT int ucudnn_solve_profile_wr(const ucudnn_solve_profile* profile,
                                          const char* request, char** answer) {
  return ucudnn::CallWithProfile(profile, request, answer, ucudnn::AnswerReuse);
}

UCUDNN_EXPORT int ucudnn_solve_profile_wd(const ucudnn_solve_profile* profile,
                                          const char* request, char** answer) {
  return ucudnn::CallWithProfile(profile, request, answer,
                                 ucudnn::AnswerDivision);
}

UCUDNN_EXPORT int ucudnn_solve_profile_pareto(
    const ucudnn_solve_profile* profile, const char* request, char** answer) {
  return ucudnn::CallWithProfile(profile, request, answer, ucudnn::AnswerFront);
}

UCUDNN_EXPORT int ucudnn_solve_profile_times(
    const ucudnn_solve_profile* profile, const char* request, char** answer) {
  return ucudnn::CallWithProfile(profile, request, answer, ucudnn::AnswerTimes);
}

UCUDNN_EXPORT int ucudnn_solve_profile_ws(const ucudnn_solve_profile* profile,
                                          const char* network,
                                          size_t network_size,
                                          const char* request, char** answer) {
  using namespace ucudnn;
  return Call(network, network_size, request, answer,
              [profile](std::string_view model, std::string_view text) {
                return profile == nullptr
                           ? NoProfile()
                           : AnswerArena(profile->parsed, model, text);
              });
}

UCUDNN_EXPORT int ucudnn_solve_assign(const char* times, size_t times_size,
                                      const char* request, char** answer) {
  using namespace ucudnn;
  return Call(times, times_size, request, answer,
              [](std::string_view csv, std::string_view text) -> Answer {
                UCUDNN_ASSIGN_OR_RETURN(const AssignRequest asked,
                                        ParseAssignRequest(text));
                UCUDNN_ASSIGN_OR_RETURN(
                    auto gpus, ParseTimesCsv(csv, asked.model, "times"));
                UCUDNN_ASSIGN_OR_RETURN(
                    const AssignAnswer solved,
                    SolveAssign(std::move(gpus), asked.batch));
                return ToJson(solved);
              });
}

UCUDNN_EXPORT int ucudnn_solve_allocation(const char* buffers,
                                          size_t buffers_size,
                                          const char* request, char** answer) {
  using namespace ucudnn;
  return Call(
      buffers, buffers_size, request, answer,
      [](std::string_view csv, std::string_view text) -> Answer {
        UCUDNN_ASSIGN_OR_RETURN(const AllocationRequest asked,
                                ParseAllocationRequest(text));
        UCUDNN_ASSIGN_OR_RETURN(const NamedBuffers named,
                                ParseBuffersCsv(csv, "buffers"));
        const TimeLimit limit(asked.time_limit);
        UCUDNN_ASSIGN_OR_RETURN(
            const Allocation allocation,
            Allocate(named.buffers, asked.options,
                     {.max_nodes = std::numeric_limits<std::int64_t>::max(),
                      .stop = limit.token()}));
        return ToJson(allocation, named);
      });
}

UCUDNN_EXPORT int ucudnn_solve_memory(const char* network, size_t network_size,
                                      const char* profile, size_t profile_size,
                                      const char* request, char** answer) {
  using namespace ucudnn;
  return Call(
      network, network_size, request, answer,
      [=](std::string_view model, std::string_view text) -> Answer {
        UCUDNN_ASSIGN_OR_RETURN(MemoryProblem problem,
                                ParseMemoryRequest(text));
        problem.network = {std::string(model), "network"};
        if (profile != nullptr) {
          problem.profile = {std::string(profile, profile_size), "profile"};
        }
        UCUDNN_ASSIGN_OR_RETURN(const MemoryAnswer solved,
                                SolveMemory(problem));
        UCUDNN_RETURN_IF_ERROR(solved.HasPlan());
        return ToJson(solved);
      });
}

UCUDNN_EXPORT int ucudnn_solve_joint_memory(const char* network,
                                            size_t network_size,
                                            const char* request,
                                            char** answer) {
  using namespace ucudnn;
  return Call(
      network, network_size, request, answer,
      [](std::string_view model, std::string_view text) -> Answer {
        UCUDNN_ASSIGN_OR_RETURN(JointMemoryRequest asked,
                                ParseJointMemoryRequest(text));
        asked.problem.network = {std::string(model), "network"};
        UCUDNN_ASSIGN_OR_RETURN(
            const JointMemoryAnswer solved,
            SolveJointMemory(asked.problem, std::move(asked.gpus), asked.step));
        return ToJson(solved);
      });
}

UCUDNN_EXPORT int ucudnn_solve_check_memory_plan(const char* plan,
                                                 size_t plan_size,
                                                 const char* graph,
                                                 size_t graph_size,
                                                 char** answer) {
  using namespace ucudnn;
  return Call(plan, plan_size, "", answer,
              [=](std::string_view text, std::string_view) -> Answer {
                std::optional<MemoryProblem::Input> graph_input;
                if (graph != nullptr) {
                  graph_input = {std::string(graph, graph_size), "graph"};
                }
                UCUDNN_ASSIGN_OR_RETURN(
                    const std::vector<CheckedMemory> checked,
                    CheckMemoryPlans({std::string(text), "plan"}, graph_input));
                return ToJson(checked);
              });
}

UCUDNN_EXPORT int ucudnn_solve_recorded_step(const char* step, size_t step_size,
                                             const char* request,
                                             char** answer) {
  using namespace ucudnn;
  return Call(step, step_size, request, answer,
              [](std::string_view text, std::string_view asked) -> Answer {
                UCUDNN_ASSIGN_OR_RETURN(RecordedStepRequest parsed,
                                        ParseRecordedStepRequest(asked));
                UCUDNN_ASSIGN_OR_RETURN(const RecordedStep recorded,
                                        ParseRecordedStep(text));
                const TimeLimit limit(parsed.time_limit);
                parsed.request.stop = limit.token();
                UCUDNN_ASSIGN_OR_RETURN(
                    const RecordedPlan plan,
                    PlanRecordedStep(recorded, parsed.request));
                return ToJson(plan);
              });
}

UCUDNN_EXPORT int ucudnn_solve_step_shares(const char* step, size_t step_size,
                                           const char* request, char** answer) {
  using namespace ucudnn;
  return Call(step, step_size, request, answer,
              [](std::string_view text, std::string_view asked) -> Answer {
                // Ranks of a kind may differ.
                auto known = ParseStep(text, kMaxSharingKinds);
                if (!known) return Within("step", std::move(known).error());
                UCUDNN_ASSIGN_OR_RETURN(StepSharesRequest parsed,
                                        ParseStepSharesRequest(*known, asked));
                const TimeLimit limit(parsed.time_limit);
                parsed.problem.stop = limit.token();
                UCUDNN_ASSIGN_OR_RETURN(const StepShares shares,
                                        ShareSteps(parsed.problem));
                return ToJson(parsed.problem, shares);
              });
}

UCUDNN_EXPORT int ucudnn_solve_read_plan(const char* plan, size_t plan_size,
                                         char** answer) {
  using namespace ucudnn;
  return Call(plan, plan_size, "", answer,
              [](std::string_view text, std::string_view) -> Answer {
                UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan read,
                                        ParseWorkspacePlan(text, "plan"));
                return ToJson(read);
              });
}

}  // extern "C"
