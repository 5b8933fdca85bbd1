#include "solver/arena/concurrency.h"

#include <algorithm>
#include <map>
#include <optional>

namespace ucudnn {
namespace {

using Kind = Concurrency::Kind;

// Copies a structure, replacing each leaf by several kernels or none. Removes
// nodes that lose all parts, and replaces a node of one part by that part.
class Rebuilder {
 public:
  // The kernels that replace each leaf and run one after the other.
  using Leaves = std::map<std::size_t, std::vector<std::size_t>>;

  explicit Rebuilder(Concurrency* out) : out_(out) {}

  std::optional<std::size_t> Copy(const Concurrency& in, const Leaves& leaves,
                                  bool reversed) {
    std::vector<std::optional<std::size_t>> copies;
    for (const Concurrency::Node& node : in.nodes) {
      std::vector<std::size_t> parts;
      if (node.kind == Kind::kLeaf) {
        const auto found = leaves.find(node.leaf);
        if (found != leaves.end()) {
          for (const std::size_t kernel : found->second) {
            out_->nodes.push_back({Kind::kLeaf, kernel, {}});
            parts.push_back(out_->nodes.size() - 1);
          }
        }
        copies.push_back(Join(Kind::kSerial, std::move(parts)));
        continue;
      }
      for (const std::size_t part : node.parts) {
        if (copies[part].has_value()) parts.push_back(*copies[part]);
      }
      if (reversed) std::ranges::reverse(parts);
      copies.push_back(Join(node.kind, std::move(parts)));
    }
    return copies.back();
  }

  std::optional<std::size_t> Join(Kind kind, std::vector<std::size_t> parts) {
    if (parts.empty()) return std::nullopt;
    return ucudnn::Join(kind, std::move(parts), out_);
  }

 private:
  Concurrency* out_;
};

}  // namespace

Result<Concurrency> OfTraining(const Concurrency& layers,
                               std::span<const LayerKernel> kernels) {
  std::vector<bool> known;
  for (const Concurrency::Node& node : layers.nodes) {
    if (node.kind != Kind::kLeaf) continue;
    known.resize(std::max(known.size(), node.leaf + 1), false);
    known[node.leaf] = true;
  }
  // In the order forward, data, filter, by layer.
  std::map<std::pair<std::size_t, ConvOp>, std::size_t> sorted;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const auto& [layer, op] = kernels[k];
    if (layer >= known.size() || !known[layer]) {
      return Fail(Code::kInvalidArgument,
                  "kernel {} is of layer {}, which the structure does not have",
                  k, layer);
    }
    if (!sorted.emplace(std::pair(layer, op), k).second) {
      return Fail(Code::kInvalidArgument, "layer {} has {} twice", layer,
                  Name(op));
    }
  }
  Rebuilder::Leaves forward;
  Rebuilder::Leaves backward;
  for (const auto& [key, kernel] : sorted) {
    auto& pass = key.second == ConvOp::kForward ? forward : backward;
    pass[key.first].push_back(kernel);
  }
  Concurrency training;
  training.exact = layers.exact;
  Rebuilder rebuilder(&training);
  std::vector<std::size_t> passes;
  for (const bool reversed : {false, true}) {
    const auto root =
        rebuilder.Copy(layers, reversed ? backward : forward, reversed);
    if (root.has_value()) passes.push_back(*root);
  }
  if (!rebuilder.Join(Kind::kSerial, std::move(passes)).has_value()) {
    return Fail(Code::kInvalidArgument, "there is no kernel to plan for");
  }
  return training;
}

}  // namespace ucudnn
