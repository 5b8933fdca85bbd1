#ifndef UCUDNN_CLIENT_CLI_MEMORY_OPTIONS_H_
#define UCUDNN_CLIENT_CLI_MEMORY_OPTIONS_H_

// The flags that commands about memory plans share:
//   --network N.onnx [--input-shape 3,224,224] --batch 256 [--precision FP32]
//   [--policy best]
//   [--allocator policy|static] [--recompute] [--offload-weights]
//   [--fuse none|paper] [--split DEPTH,H,W] [--time-limit 60]
//   [--profile-network N] [--device D] [--layout NCHW] [--max-error 1e-3]

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/training/device_model.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "client/cli/command.h"
#include "client/cli/network_options.h"
#include "client/solve/memory.h"

namespace ucudnn::ctl {

struct MemoryOptions {
  std::string network;
  std::string precision = "FP32";
  double time_limit = std::chrono::duration<double>(kMemoryTime).count();
  OutputFormat output = OutputFormat::kTable;
  // Everything that needs no file or other flag to be read.
  MemoryProblem problem;
};

// Adds the flags; `more_policies` follows the policies' names in the help.
void AddMemoryOptions(CLI::App* command, std::string_view more_policies,
                      MemoryOptions* options);

// The flags of commands that plan a network on one device:
//   --device-model NAME|FILE|KIND [--profile P.csv] [--budget 4GB]
//   [--sub-batch 16] [--timeline T.json] [--graph-out G.json]
struct DeviceOptions {
  std::string device_model;
  std::string profile;
  std::string timeline;
  std::string graph_out;
};

// Adds them; the request's budget is 0 unless it is given.
void AddDeviceOptions(CLI::App* command, DeviceOptions* options,
                      MemoryRequest* request);

// The problem of these flags but those that tell of the network; stops on
// signals.
MemoryProblem WithoutNetwork(const MemoryOptions& options);
// The same with the network's contents.
// kInvalidArgument, naming flag or file, if something is malformed or missing.
Result<MemoryProblem> ReadMemoryProblem(const MemoryOptions& options);
// The same with the device and what was measured on it.
Result<MemoryProblem> ReadMemoryProblem(const MemoryOptions& options,
                                        const DeviceOptions& device,
                                        const ModelOfKind& model_of_kind);

// Writes the plan, unless it is null, and its graph's JSON to the files that
// the flags name. Errors of WriteText.
Status WritePlanFiles(const DeviceOptions& options, const MemoryPlan* plan,
                      const TrainingGraph& graph,
                      const nlohmann::ordered_json& graph_json);

// `name` is that of a preset, a file or a kind of device. kInvalidArgument,
// naming `flag` and what is accepted; errors of `model_of_kind`.
Result<DeviceModel> ReadDeviceModel(std::string_view flag,
                                    const std::string& name,
                                    const ModelOfKind& model_of_kind);

// The file that a flag names, decompressed, of at most `most`. Errors of
// ReadFile, as those of the request.
Result<MemoryProblem::Input> ReadInput(const std::string& path, Bytes most);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_MEMORY_OPTIONS_H_
