#ifndef UCUDNN_CLIENT_CLI_SERVER_PAGES_H_
#define UCUDNN_CLIENT_CLI_SERVER_PAGES_H_

// Whole lists from a coordinator, which answers page by page until one is
// empty.
//
//   UCUDNN_ASSIGN_OR_RETURN(const v1::ListJobsResponse all,
//                           AllPages(*connection, &Stub::ListJobs,
//                                    &v1::ListJobsResponse::jobs));

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/result.h"
#include "client/cli/server/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {

// What ListRequest.after takes to continue after this entry.
template <class Entry>
std::string PageKey(const Entry& entry) {
  return fmt::format("{}", entry.id());
}
inline std::string PageKey(const v1::Network& network) {
  return network.name();
}
inline std::string PageKey(const v1::Step& step) { return step.name(); }

// The pages of `list` as one response; `entries` is the response's list. The
// request may select a kind, the entry `after` which to begin, and a `limit`
// for all pages together; 0: none.
template <class Response, class Entry>
Result<Response> AllPages(
    Connection& connection, Connection::Method<v1::ListRequest, Response> list,
    const google::protobuf::RepeatedPtrField<Entry>& (Response::*entries)()
        const,
    v1::ListRequest request = {}) {
  constexpr int kPage = 1000;  // the most that coordinators accept
  const int most =
      request.limit() == 0 ? std::numeric_limits<int>::max() : request.limit();
  Response all;
  while ((all.*entries)().size() < most) {
    request.set_limit(std::min(kPage, most - (all.*entries)().size()));
    UCUDNN_ASSIGN_OR_RETURN(const Response page,
                            connection.Call(list, request));
    all.MergeFrom(page);
    const auto& found = (page.*entries)();
    if (found.empty()) break;
    request.set_after(PageKey(*found.rbegin()));
  }
  return all;
}

// The same as a JSON array, for lists (list.h); `field` names the response's
// list.
template <class Response, class Entry>
Result<nlohmann::ordered_json> Entries(
    Connection& connection, Connection::Method<v1::ListRequest, Response> list,
    const google::protobuf::RepeatedPtrField<Entry>& (Response::*entries)()
        const,
    v1::ListRequest request = {}) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Response all,
      AllPages(connection, list, entries, std::move(request)));
  auto array = nlohmann::ordered_json::array();
  for (const Entry& entry : (all.*entries)()) array.push_back(ToJson(entry));
  return array;
}

// What fetches the entries of a list (list.h).
template <class Response, class Entry>
auto Fetch(Connection::Method<v1::ListRequest, Response> list,
           const google::protobuf::RepeatedPtrField<Entry>& (
               Response::*entries)() const) {
  return [=](Connection& connection, v1::ListRequest page) {
    return Entries(connection, list, entries, std::move(page));
  };
}

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_PAGES_H_
