#ifndef UCUDNN_CLIENT_CLI_SERVER_REMOVE_H_
#define UCUDNN_CLIENT_CLI_SERVER_REMOVE_H_

// `ucudnn networks rm`, `plans rm`, `jobs rm`, `nodes rm`.

#include <functional>
#include <string>

#include "base/result.h"
#include "client/cli/server/server.h"

namespace ucudnn::ctl {

struct Removable {
  std::string what;  // "job"
  std::string id;    // "JOB", for the help
  Connection::Method<v1::DeleteRequest, v1::DeleteResponse> remove;
  // The id that people mean; the text itself if empty.
  std::function<Result<std::string>(Connection&, const std::string&)> named;
};

// Adds `rm` to the command that lists such things.
void AddRemove(CLI::App* list, const Server& server, const Removable& removable,
               Chosen* chosen);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_REMOVE_H_
