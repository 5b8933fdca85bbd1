#include "base/plan/concurrency.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/plan/plan.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using Kind = Concurrency::Kind;

Concurrency Flat(Kind kind, std::size_t count) {
  Concurrency concurrency;
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < count; ++i) {
    concurrency.nodes.push_back({Kind::kLeaf, i, {}});
    parts.push_back(i);
  }
  Join(kind, std::move(parts), &concurrency);
  return concurrency;
}

// Reads the text form from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<Concurrency> Read() {
    while (at_ < text_.size()) {
      const char next = text_[at_];
      if (std::isdigit(static_cast<unsigned char>(next)) != 0) {
        UCUDNN_RETURN_IF_ERROR(ReadLeaf());
        continue;
      }
      if (next == '[') {
        open_.emplace_back(2);
      } else if (next == '|' || next == ']') {
        if (open_.size() == 1 || open_.back()[1].empty()) return Refusal();
        EndPart();
        if (next == ']' && !EndParallel()) return Refusal();
      } else if (next != ' ') {
        return Refusal();
      }
      ++at_;
    }
    if (open_.size() != 1 || open_[0][1].empty()) return Refusal();
    EndPart();
    return std::move(read_);
  }

 private:
  // The nodes of the parts that have ended, and of the one that has not.
  using Parts = std::vector<std::vector<std::size_t>>;

  tl::unexpected<Error> Refusal() const {
    return Fail(Code::kInvalidArgument,
                "'{}' at character {}; kernels by number, and in brackets what "
                "may run at once, as in '0 [1 | 2 3] 4', are accepted",
                Excerpt(text_.substr(at_), 16), at_ + 1);
  }

  Status ReadLeaf() {
    const std::size_t end =
        std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    const auto leaf = ParseInteger(text_.substr(at_, end - at_), 0, kMaxCount);
    if (!leaf) return Refusal();
    read_.nodes.push_back({Kind::kLeaf, static_cast<std::size_t>(*leaf), {}});
    open_.back()[1].push_back(read_.nodes.size() - 1);
    at_ = end;
    return {};
  }

  void EndPart() {
    Parts& parts = open_.back();
    parts[0].push_back(Join(Kind::kSerial, std::move(parts[1]), &read_));
    parts[1].clear();
  }

  bool EndParallel() {
    std::vector<std::size_t> parts = std::move(open_.back()[0]);
    if (parts.size() < 2) return false;
    open_.pop_back();
    open_.back()[1].push_back(Join(Kind::kParallel, std::move(parts), &read_));
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Parts> open_ = {Parts(2)};  // each within the one before
  Concurrency read_;
};

// A kernel's bytes, and the part of a Parallel that it belongs to.
struct Segment {
  Bytes begin;
  Bytes end;
  std::size_t part = 0;
  std::size_t kernel = 0;
};

// Two segments of unlike parts that overlap; equal if there are none.
std::pair<Segment, Segment> FindOverlap(std::vector<Segment> segments) {
  std::ranges::sort(segments, {}, &Segment::begin);
  // Those that end last: of all, and of the other parts.
  std::array<Segment, 2> last;
  for (const Segment& segment : segments) {
    for (const Segment& before : last) {
      if (before.part != segment.part && before.end > segment.begin) {
        return {before, segment};
      }
    }
    if (segment.end <= last[0].end) {
      if (segment.part != last[0].part && segment.end > last[1].end) {
        last[1] = segment;
      }
      continue;
    }
    if (segment.part != last[0].part) last[1] = last[0];
    last[0] = segment;
  }
  return {};
}

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

std::size_t Join(Kind kind, std::vector<std::size_t> parts,
                 Concurrency* concurrency) {
  if (parts.size() == 1) return parts[0];
  concurrency->nodes.push_back({kind, 0, std::move(parts)});
  return concurrency->nodes.size() - 1;
}

std::string ToString(const Concurrency& concurrency) {
  std::vector<std::string> texts;
  for (const Concurrency::Node& node : concurrency.nodes) {
    const bool parallel = node.kind == Kind::kParallel;
    std::string text =
        node.kind == Kind::kLeaf ? std::to_string(node.leaf) : "";
    for (const std::size_t part : node.parts) {
      if (!text.empty()) text += parallel ? " | " : " ";
      text += texts[part];
      texts[part] = {};
    }
    texts.push_back(parallel ? "[" + text + "]" : std::move(text));
  }
  return texts.back();
}

Result<Concurrency> ParseConcurrency(std::string_view text,
                                     std::size_t leaves) {
  UCUDNN_ASSIGN_OR_RETURN(Concurrency read, Reader(text).Read());
  UCUDNN_RETURN_IF_ERROR(Validate(read, leaves));
  return read;
}

Status CheckSegments(const WorkspacePlan& plan,
                     const Concurrency& concurrency) {
  std::vector<std::vector<Segment>> below;  // what each node has
  for (const Concurrency::Node& node : concurrency.nodes) {
    std::vector<Segment> all;
    if (node.kind == Kind::kLeaf) {
      const KernelPlan& kernel = plan.kernels[node.leaf];
      const Bytes begin = kernel.offset.value_or(Bytes(0));
      // Without an offset it may be anywhere.
      const Bytes end = kernel.offset || kernel.workspace == Bytes(0)
                            ? begin + kernel.workspace
                            : Bytes::Max();
      if (begin < end) all.push_back({begin, end, 0, node.leaf});
    }
    for (std::size_t p = 0; p < node.parts.size(); ++p) {
      for (Segment& segment : below[node.parts[p]]) {
        segment.part = p + 1;
        all.push_back(segment);
      }
      below[node.parts[p]] = {};
    }
    if (node.kind == Kind::kParallel) {
      const auto [a, b] = FindOverlap(all);
      if (a.part != b.part) {
        const auto& [first, second] = std::minmax(a.kernel, b.kernel);
        return Fail(Code::kInvalidArgument,
                    "kernels[{}].offset_bytes: its workspace overlaps that of "
                    "kernels[{}], and both may run at once; disjoint segments "
                    "are accepted",
                    second, first);
      }
    }
    below.push_back(std::move(all));
  }
  return {};
}

}  // namespace ucudnn
