#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/files/buffers.h"
#include "base/files/file.h"
#include "base/service/help.h"
#include "base/service/signals.h"
#include "base/service/time_limit.h"
#include "client/cli/solve/solve.h"
#include "client/solve/answers.h"
#include "client/solve/request.h"

namespace ucudnn::ctl {
namespace {

struct AllocationArguments {
  std::string buffers;
  Bytes capacity;
  bool has_capacity = false;
  double seconds = std::chrono::duration<double>(kAllocationTime).count();
  std::string output = "table";
};

std::string Summary(const Allocation& allocation, bool has_capacity) {
  const std::string pool = fmt::format(
      "pool {}, load {}: ", allocation.pool.count(), allocation.load.count());
  if (allocation.proven) return pool + "no smaller pool is possible\n";
  return pool + fmt::format("{}none smaller than {} is possible\n",
                            has_capacity ? "" : "the search was cut off; ",
                            allocation.lower_bound.count());
}

std::string ToTable(const Allocation& allocation, const NamedBuffers& named) {
  Table table({"ID", "LOWER", "UPPER", "SIZE", "OFFSET"});
  for (std::size_t i = 0; i < named.ids.size(); ++i) {
    const Buffer& buffer = named.buffers[i];
    table.AddRow({named.ids[i], std::to_string(buffer.begin),
                  std::to_string(buffer.end),
                  std::to_string(buffer.size.count()),
                  std::to_string(allocation.offsets[i].count())});
  }
  return table.Text() + "\n";
}

Status RunAllocation(const AllocationArguments& options) {
  UCUDNN_ASSIGN_OR_RETURN(const NamedBuffers named,
                          OfInput(ReadBuffersFile(options.buffers)));
  AllocationOptions asked;
  if (options.has_capacity) asked.capacity = options.capacity;
  const TimeLimit limit(RoundUpSeconds(options.seconds), StopOnSignals());
  const auto allocation =
      Allocate(named.buffers, asked,
               {.max_nodes = std::numeric_limits<std::int64_t>::max(),
                .stop = limit.token()});
  if (!allocation) return Within(options.buffers, allocation.error());
  const std::string summary = Summary(*allocation, options.has_capacity);
  if (options.output == "csv") {
    std::fputs(("ucudnn: " + summary).c_str(), stderr);
    return WriteText("", ToCsv(*allocation, named));
  }
  return Print(options.output == "json"   ? OutputFormat::kJson
               : options.output == "yaml" ? OutputFormat::kYaml
                                          : OutputFormat::kTable,
               ToJson(*allocation, named),
               [&] { return ToTable(*allocation, named) + summary; });
}

}  // namespace

void AddSolveAllocation(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "allocation",
      "Give buffers of known lifetimes offsets in the smallest pool");
  auto options = std::make_shared<AllocationArguments>();
  AddTextOption(command, "--buffers", "FILE", &options->buffers,
                "Lifetimes and sizes: CSV with id, lower, upper and size; a "
                "buffer is live from lower until before upper")
      ->required();
  AddBytesOption(command, "--capacity", &options->capacity,
                 "The most that the pool may have; a pool within it is then "
                 "enough. Otherwise the smallest is sought")
      ->each([options](const std::string&) { options->has_capacity = true; });
  command
      ->add_option("--time-limit", options->seconds,
                   "After how many seconds the best allocation found so far is "
                   "the answer, as after Ctrl-C; 60 unless given")
      ->check(NumberIn(
          0.001, std::chrono::duration<double>(kMostAllocationTime).count()))
      ->option_text("SECONDS");
  command
      ->add_option("-o,--output", options->output,
                   "How to print the answer: table, json, yaml or csv "
                   "(id,offset)")
      ->check(CLI::IsMember({"table", "json", "yaml", "csv"}))
      ->option_text("FORMAT");
  OnChosen(command, chosen, [options] { return RunAllocation(*options); });
}

}  // namespace ucudnn::ctl
