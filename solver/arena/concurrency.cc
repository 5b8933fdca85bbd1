#include "solver/arena/concurrency.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace ucudnn {
namespace {

using Kind = Concurrency::Kind;

Concurrency Flat(Kind kind, std::size_t count) {
  Concurrency concurrency;
  for (std::size_t i = 0; i < count; ++i) {
    concurrency.nodes.push_back({Kind::kLeaf, i, {}});
  }
  if (count > 1) {
    std::vector<std::size_t> parts(count);
    std::iota(parts.begin(), parts.end(), std::size_t{0});
    concurrency.nodes.push_back({kind, 0, std::move(parts)});
  }
  return concurrency;
}

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
      if (reversed) std::reverse(parts.begin(), parts.end());
      copies.push_back(Join(node.kind, std::move(parts)));
    }
    return copies.back();
  }

  std::optional<std::size_t> Join(Kind kind, std::vector<std::size_t> parts) {
    if (parts.empty()) return std::nullopt;
    if (parts.size() == 1) return parts[0];
    out_->nodes.push_back({kind, 0, std::move(parts)});
    return out_->nodes.size() - 1;
  }

 private:
  Concurrency* out_;
};

}  // namespace

Concurrency Chain(std::size_t count) { return Flat(Kind::kSerial, count); }

Concurrency AllConcurrent(std::size_t count) {
  return Flat(Kind::kParallel, count);
}

Status Validate(const Concurrency& concurrency, std::size_t leaves) {
  const std::size_t size = concurrency.nodes.size();
  std::vector<bool> used(size, false);
  std::vector<bool> seen(leaves, false);
  for (std::size_t i = 0; i < size; ++i) {
    const Concurrency::Node& node = concurrency.nodes[i];
    if (node.kind == Kind::kLeaf) {
      if (node.leaf >= leaves || seen[node.leaf]) {
        return Fail(Code::kInvalidArgument,
                    "the structure has leaf {} twice or beyond the {} kernels",
                    node.leaf, leaves);
      }
      seen[node.leaf] = true;
    }
    if ((node.kind == Kind::kLeaf) != node.parts.empty()) {
      return Fail(Code::kInvalidArgument,
                  "node {} of the structure has {} parts", i,
                  node.parts.size());
    }
    for (const std::size_t part : node.parts) {
      if (part >= i || used[part]) {
        return Fail(Code::kInvalidArgument,
                    "node {} of the structure has part {}, which is a part "
                    "already or does not come before it",
                    i, part);
      }
      used[part] = true;
    }
  }
  const auto unused = std::count(used.begin(), used.end(), false);
  const auto missing = std::count(seen.begin(), seen.end(), false);
  if (unused != 1 || missing != 0) {
    return Fail(Code::kInvalidArgument,
                "the structure has {} roots and misses {} of {} kernels; one "
                "root over all kernels is accepted",
                unused, missing, leaves);
  }
  return {};
}

std::vector<std::pair<std::size_t, std::size_t>> ConcurrentPairs(
    const Concurrency& concurrency) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<std::vector<std::size_t>> below;  // the leaves of each node
  for (const Concurrency::Node& node : concurrency.nodes) {
    std::vector<std::size_t> all;
    if (node.kind == Kind::kLeaf) all.push_back(node.leaf);
    for (const std::size_t part : node.parts) {
      if (node.kind == Kind::kParallel) {
        for (const std::size_t a : all) {
          for (const std::size_t b : below[part]) {
            pairs.emplace_back(std::minmax(a, b));
          }
        }
      }
      all.insert(all.end(), below[part].begin(), below[part].end());
      below[part] = {};
    }
    below.push_back(std::move(all));
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

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
