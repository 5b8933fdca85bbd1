#include "solver/memory/modnn/schemes.h"

#include <algorithm>
#include <utility>

namespace ucudnn {
namespace {

using Kind = PoolSegment::Kind;

// The scheme whose first segment is `first`.
std::optional<OffloadScheme> SchemeFrom(
    const std::vector<PoolSegment>& segments, std::size_t first, Bytes size,
    Nanoseconds link_free, Nanoseconds now) {
  OffloadScheme scheme;
  scheme.offset = segments[first].range.offset;
  Bytes bytes;
  Nanoseconds link = link_free;
  Nanoseconds free = now;
  for (std::size_t i = first; bytes < size; ++i) {
    if (i == segments.size() || segments[i].kind == Kind::kTaken) {
      return std::nullopt;
    }
    const PoolSegment& segment = segments[i];
    bytes += segment.range.bytes;
    if (segment.kind == Kind::kFree) {
      free = std::max(free, segment.ready);
      continue;
    }
    scheme.blocks.push_back(segment.block);
    if (segment.copy > Nanoseconds(0)) {
      link = std::max(link, segment.ready) + segment.copy;
      free = std::max(free, link);
    }
  }
  scheme.delay = free - now;
  return scheme;
}

}  // namespace

std::optional<OffloadScheme> FindOffloadScheme(
    const std::vector<PoolSegment>& segments, Bytes size, Nanoseconds link_free,
    Nanoseconds now) {
  std::optional<OffloadScheme> best;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    std::optional<OffloadScheme> scheme =
        SchemeFrom(segments, i, size, link_free, now);
    if (scheme && (!best || scheme->delay < best->delay)) {
      best = std::move(scheme);
    }
  }
  return best;
}

}  // namespace ucudnn
