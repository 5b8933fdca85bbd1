// From a graph to the order of its convolutions, and from an order to a
// series-parallel structure.

#include <algorithm>
#include <bit>
#include <utility>

#include "solver/arena/concurrency.h"

namespace ucudnn {
namespace {

using Kind = Concurrency::Kind;
using Row = std::vector<std::uint64_t>;

bool Get(const std::uint64_t* row, std::size_t i) {
  return ((row[i / 64] >> (i % 64)) & 1) != 0;
}

void Set(std::uint64_t* row, std::size_t i) {
  row[i / 64] |= std::uint64_t{1} << (i % 64);
}

}  // namespace

PartialOrder::PartialOrder(std::size_t size)
    : size_(size), words_((size + 63) / 64), before_(size_ * words_, 0) {
  UCUDNN_CHECK(size <= kMaxSize);
}

bool PartialOrder::Before(std::size_t a, std::size_t b) const {
  return Get(&before_[b * words_], a);
}

void PartialOrder::Put(std::size_t a, std::size_t b) {
  for (std::size_t w = 0; w < words_; ++w) {
    before_[b * words_ + w] |= before_[a * words_ + w];
  }
  Set(&before_[b * words_], a);
}

// Decomposes sets until single elements are left. Iterative, because an order
// may nest as deeply as it is long.
class OrderDecomposer {
 public:
  explicit OrderDecomposer(const PartialOrder& order)
      : order_(order), comparable_(order.before_) {
    for (std::size_t b = 0; b < order.size(); ++b) {
      for (std::size_t a = 0; a < order.size(); ++a) {
        if (order.Before(a, b)) Set(RowOf(a), b);
      }
    }
  }

  Concurrency Run() {
    std::vector<std::size_t> all(order_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    // Parents before parts here; reversed at the end.
    std::vector<std::vector<std::size_t>> sets = {std::move(all)};
    std::vector<Concurrency::Node> nodes;
    bool exact = true;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      Concurrency::Node node;
      const std::vector<std::size_t> set = std::move(sets[i]);
      if (set.size() == 1) {
        node.leaf = set[0];
        nodes.push_back(std::move(node));
        continue;
      }
      std::vector<std::vector<std::size_t>> parts = Split(set, false);
      node.kind = Kind::kParallel;
      if (parts.size() == 1) {
        parts = Split(set, true);
        node.kind = Kind::kSerial;
      }
      if (parts.size() == 1) {
        parts = Chains(set);
        node.kind = Kind::kParallel;
        exact = false;
      }
      for (auto& part : parts) {
        node.parts.push_back(sets.size());
        sets.push_back(std::move(part));
      }
      nodes.push_back(std::move(node));
    }
    std::ranges::reverse(nodes);
    for (Concurrency::Node& node : nodes) {
      for (std::size_t& part : node.parts) part = nodes.size() - 1 - part;
    }
    return {std::move(nodes), exact};
  }

 private:
  std::uint64_t* RowOf(std::size_t i) {
    return &comparable_[i * order_.words_];
  }

  // How many elements of all are before `i`: later elements have more.
  std::size_t Rank(std::size_t i) const {
    std::size_t rank = 0;
    for (std::size_t w = 0; w < order_.words_; ++w) {
      rank += static_cast<std::size_t>(
          std::popcount(order_.before_[i * order_.words_ + w]));
    }
    return rank;
  }

  // The connected components of `set` under comparability or, if `opposite`,
  // incomparability; sorted by the order, their elements rising.
  std::vector<std::vector<std::size_t>> Split(
      const std::vector<std::size_t>& set, bool opposite) {
    Row left(order_.words_, 0);  // elements in no component yet
    for (const std::size_t i : set) Set(left.data(), i);
    std::vector<std::vector<std::size_t>> components;
    for (const std::size_t first : set) {
      if (!Get(left.data(), first)) continue;
      std::vector<std::size_t> component = {first};
      left[first / 64] &= ~(std::uint64_t{1} << (first % 64));
      for (std::size_t next = 0; next < component.size(); ++next) {
        const std::uint64_t* row = RowOf(component[next]);
        for (std::size_t w = 0; w < order_.words_; ++w) {
          std::uint64_t found = left[w] & (opposite ? ~row[w] : row[w]);
          left[w] &= ~found;
          for (; found != 0; found &= found - 1) {
            component.push_back(
                w * 64 + static_cast<std::size_t>(std::countr_zero(found)));
          }
        }
      }
      std::ranges::sort(component);
      components.push_back(std::move(component));
    }
    if (opposite) {  // each component is wholly before or after each other
      std::ranges::sort(components, [this](const auto& a, const auto& b) {
        return order_.Before(a[0], b[0]);
      });
    }
    return components;
  }

  // Chains that cover `set`: each element joins the chain whose last element is
  // its latest predecessor.
  std::vector<std::vector<std::size_t>> Chains(
      const std::vector<std::size_t>& set) const {
    std::vector<std::pair<std::size_t, std::size_t>> ranked;
    ranked.reserve(set.size());
    for (const std::size_t i : set) ranked.emplace_back(Rank(i), i);
    std::ranges::sort(ranked);
    std::vector<std::vector<std::size_t>> chains;
    std::vector<std::size_t> last;  // the rank of each chain's last element
    for (const auto& [rank, i] : ranked) {
      std::size_t best = chains.size();
      for (std::size_t c = 0; c < chains.size(); ++c) {
        if (order_.Before(chains[c].back(), i) &&
            (best == chains.size() || last[c] > last[best])) {
          best = c;
        }
      }
      if (best == chains.size()) {
        chains.emplace_back();
        last.push_back(0);
      }
      chains[best].push_back(i);
      last[best] = rank;
    }
    return chains;
  }

  const PartialOrder& order_;
  Row comparable_;  // rows as of the order, in both directions
};

Concurrency Decompose(const PartialOrder& order) {
  UCUDNN_CHECK(order.size() > 0);
  return OrderDecomposer(order).Run();
}

Result<PartialOrder> ConvolutionOrder(const Graph& graph) {
  constexpr std::size_t kNone = PartialOrder::kMaxSize;
  std::vector<std::size_t> number(graph.nodes.size(), kNone);
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].convolution.has_value()) continue;
    if (count == PartialOrder::kMaxSize) {
      return Fail(Code::kInvalidArgument,
                  "{} has more than {} convolutions, which is what is accepted",
                  graph.name, PartialOrder::kMaxSize);
    }
    number[i] = count++;
  }
  if (count == 0) {
    return Fail(Code::kInvalidArgument, "{} has no convolution", graph.name);
  }
  const std::vector<std::vector<std::size_t>> predecessors =
      Predecessors(graph);
  // The convolutions that reach another node are kept while it has readers.
  std::vector<std::size_t> readers(graph.nodes.size(), 0);
  for (const auto& list : predecessors) {
    for (const std::size_t p : list) ++readers[p];
  }
  PartialOrder order(count);
  std::vector<Row> reaching(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Row row((count + 63) / 64, 0);
    for (const std::size_t p : predecessors[i]) {
      for (std::size_t w = 0; w < row.size(); ++w) row[w] |= reaching[p][w];
      if (--readers[p] == 0) Row().swap(reaching[p]);
    }
    if (number[i] != kNone) {
      for (std::size_t a = 0; a < number[i]; ++a) {
        if (Get(row.data(), a)) order.Put(a, number[i]);
      }
      Set(row.data(), number[i]);
    }
    if (readers[i] > 0) reaching[i] = std::move(row);
  }
  return order;
}

}  // namespace ucudnn
