#ifndef UCUDNN_COORDINATOR_PAGE_H_
#define UCUDNN_COORDINATOR_PAGE_H_

// Pages of lists that are sorted by id.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
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

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PAGE_H_
