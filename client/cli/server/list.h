#ifndef UCUDNN_CLIENT_CLI_SERVER_LIST_H_
#define UCUDNN_CLIENT_CLI_SERVER_LIST_H_

// Lists as every command shows them: sorted, filtered, watched, as a table that
// fits the terminal or as a program wants them.
//
//   AddList(app.add_subcommand("jobs", "List the jobs"), server,
//           {.columns = {Plain("JOB", "id"), Age("BEGAN", "created_ms")},
//            .id = "id",
//            .fetch = Fetch(&Stub::ListJobs, &v1::ListJobsResponse::jobs)},
//           chosen);

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/cli/server/server.h"

namespace ucudnn::ctl {

using Json = nlohmann::ordered_json;

// A column of a table: how people see a member of each entry.
struct Column {
  std::string header;
  std::string member;  // "request.network"; what is sorted and filtered by
  std::function<std::string(const Json& entry)> text;
  bool wide = false;  // only with -o wide
  // With -o wide instead of `text`, if given.
  std::function<std::string(const Json& entry)> wide_text = {};
};

// The member as it is; "-" if it is missing, null or empty.
Column Plain(std::string header, std::string member);
// Unix milliseconds as "3 s ago".
Column Age(std::string header, std::string member);
// Microseconds as "1.2 ms".
Column Duration(std::string header, std::string member);
// What an entry's request plans: a network, or "step NAME".
Column Planned();
// The number of elements.
Column Count(std::string header, std::string member);
// A device kind by its short name; the whole one with -o wide.
Column Kind(std::string header, std::string member);
Column Wide(Column column);

struct List {
  std::vector<Column> columns;
  std::string id;  // the member that names an entry
  // The entries, as an array: those after `page.after()`, up to `page.limit()`
  // unless that is 0 (pages.h).
  std::function<Result<Json>(Connection& connection, v1::ListRequest page)>
      fetch;
  // Whether `fetch` knows of pages; if not, it gets none.
  bool paged = true;
  // What --state accepts, which is --filter state=...; empty: no such option.
  std::vector<std::string> states = {};
};

// Adds the options of lists to `command`, which then shows the list.
void AddList(CLI::App* command, const Server& server, List list,
             Chosen* chosen);

// The member at a dotted path; null if there is none.
const Json& Member(const Json& entry, const std::string& path);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_LIST_H_
