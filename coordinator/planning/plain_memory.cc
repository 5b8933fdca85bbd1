#include "coordinator/planning/plain_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/onnx/network_file.h"
#include "base/training/build.h"

namespace ucudnn {
namespace {

// The tasks between a block's first use and its last.
struct Life {
  std::size_t first = 0;
  std::size_t last = 0;
};

std::vector<std::optional<Life>> LivesOf(const TrainingGraph& graph) {
  std::vector<std::optional<Life>> lives(graph.blocks.size());
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    if (graph.blocks[b].persistent) lives[b] = Life{0, graph.tasks.size() - 1};
  }
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    for (const auto* blocks : {&graph.tasks[t].reads, &graph.tasks[t].writes}) {
      for (const std::size_t b : *blocks) {
        if (!lives[b]) lives[b] = Life{t, t};
        lives[b]->last = std::max(lives[b]->last, t);
      }
    }
  }
  return lives;
}

Result<TrainingGraph> GraphOf(const NetworkRecord& network,
                              const JobRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      ParseGraph(network.source, network.name, request.batch, network.name));
  TrainingOptions options;
  options.precision = request.precision;
  options.updates_at_end = request.device_kinds.size() > 1;
  return BuildTrainingGraph(graph, options);
}

}  // namespace

std::vector<Bytes> LiveBytes(const TrainingGraph& graph, BatchSize most) {
  struct Sum {
    Bytes bytes;
    Bytes bytes_per_image;
    auto operator<=>(const Sum&) const = default;
  };
  std::vector<Sum> sums(graph.tasks.size());
  const auto lives = LivesOf(graph);
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    if (!lives[b]) continue;
    for (std::size_t t = lives[b]->first; t <= lives[b]->last; ++t) {
      sums[t].bytes += graph.blocks[b].bytes;
      sums[t].bytes_per_image += graph.blocks[b].bytes_per_image;
    }
  }
  std::ranges::sort(sums);
  sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
  std::vector<Bytes> live(static_cast<std::size_t>(most.count()) + 1);
  for (std::size_t b = 1; b < live.size(); ++b) {
    for (const Sum& sum : sums) {
      live[b] = std::max(live[b], sum.bytes + sum.bytes_per_image *
                                                  static_cast<std::int64_t>(b));
    }
  }
  return live;
}

PlainMemory PlainMemoryOf(const NetworkRecord& network,
                          const JobRequest& request,
                          const std::map<std::string, DeviceModel>& models) {
  PlainMemory memory;
  if (network.format != NetworkFormat::kOnnx) {
    memory.unknown = "the network is known by its convolutions alone";
    return memory;
  }
  std::vector<std::string> without;
  for (const std::string& kind : request.device_kinds) {
    const auto model = models.find(kind);
    if (model != models.end()) {
      memory.devices[kind] = model->second.memory;
    } else if (std::ranges::find(without, kind) == without.end()) {
      without.push_back(kind);
    }
  }
  if (!without.empty()) {
    memory.unknown =
        fmt::format("there is no device model of {}", fmt::join(without, ", "));
  }
  if (memory.devices.empty()) return memory;
  const auto graph = GraphOf(network, request);
  if (graph) {
    memory.live = LiveBytes(*graph, request.batch);
  } else {
    memory.devices.clear();
    memory.unknown =
        "the network has no training graph: " + graph.error().message;
  }
  return memory;
}

std::string PlainInputsText(const PlainMemory& memory,
                            const NetworkRecord& network) {
  if (memory.live.empty()) return {};
  std::string text = "\nplain " + network.hash;
  for (const auto& [kind, bytes] : memory.devices) {
    text += fmt::format("\nmemory of {} {}", kind, bytes.count());
  }
  return text;
}

}  // namespace ucudnn
