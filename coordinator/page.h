#ifndef UCUDNN_COORDINATOR_PAGE_H_
#define UCUDNN_COORDINATOR_PAGE_H_

// Pages of lists that are sorted by id. They end early rather than get longer
// than kMaxPageBytes (limits.h); a client goes on until a page is empty.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "base/units.h"
#include "coordinator/limits.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

inline constexpr int kDefaultPage = 100;
inline constexpr int kMaxPage = 1000;

// The page size that `request` asks for; kInvalidArgument above kMaxPage.
inline Result<int> PageSize(const v1::ListRequest& request) {
  if (request.limit() < 0 || request.limit() > kMaxPage) {
    return Fail(Code::kInvalidArgument, "limit is {}; 1 to {} is accepted",
                request.limit(), kMaxPage);
  }
  return request.limit() == 0 ? kDefaultPage : request.limit();
}

// The first entries of `items` whose id comes after `request.after()`.
template <class Item, class IdOf>
Result<std::span<const Item>> PageOf(const std::vector<Item>& items,
                                     const v1::ListRequest& request,
                                     const IdOf& id_of) {
  UCUDNN_ASSIGN_OR_RETURN(const int size, PageSize(request));
  std::size_t first = 0;
  while (!request.after().empty() && first < items.size() &&
         id_of(items[first]) <= request.after()) {
    ++first;
  }
  return std::span(items).subspan(
      first, std::min<std::size_t>(items.size() - first,
                                   static_cast<std::size_t>(size)));
}

// Of a list that is newest first, what comes after an id is older. 0 if the
// request names none.
inline Result<std::int64_t> OlderThan(const v1::ListRequest& request) {
  if (request.after().empty()) return 0;
  Result<std::int64_t> id = ParseInteger(request.after(), 1, kMaxCount);
  if (!id) return Within("after", id.error());
  return id;
}

// kInvalidArgument if the list `what` of a request is longer than `max`.
inline Status CheckLength(std::string_view what, int size, int max) {
  if (size <= max) return {};
  return Fail(Code::kInvalidArgument,
              "{} has {} entries; up to {} are accepted", what, size, max);
}

// How much of a page is used up.
class PageBytes {
 public:
  // Counts another entry; true if it was the page's last. `as_json` is how many
  // times as long it is as JSON, where that is much more than usual.
  bool Fill(const google::protobuf::Message& entry, std::size_t as_json = 1) {
    used_ += entry.ByteSizeLong() * as_json;
    return used_ >= kMaxPageBytes;
  }

 private:
  std::size_t used_ = 0;
};

// Makes a page of records that the store lists: `list(limit)` returns the next
// ones, up to `limit`, few at a time because each may be long; empty at the
// end. `add(record)` appends one and returns whether it was the page's last, or
// an error.
template <class List, class Add>
Status FillPage(const v1::ListRequest& request, const List& list,
                const Add& add) {
  constexpr int kAtOnce = 16;
  UCUDNN_ASSIGN_OR_RETURN(int left, PageSize(request));
  while (left > 0) {
    UCUDNN_ASSIGN_OR_RETURN(const auto records, list(std::min(left, kAtOnce)));
    if (records.empty()) return {};
    left -= static_cast<int>(records.size());
    for (const auto& record : records) {
      UCUDNN_ASSIGN_OR_RETURN(const bool full, add(record));
      if (full) return {};
    }
  }
  return {};
}

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PAGE_H_
