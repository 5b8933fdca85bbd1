#ifndef UCUDNN_CLIENT_CLI_SERVER_NAMES_H_
#define UCUDNN_CLIENT_CLI_SERVER_NAMES_H_

// What people may write in place of whole ids and device kinds, and who they
// are.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/cli/server/server.h"

namespace CLI {
class App;
}

namespace ucudnn::ctl {

// "h200/132u" for "NVIDIA H200/132u/139GiB/cudnn-9.19": the model's word with a
// digit, or its last one, and the units. A text that is no kind stays as it is.
std::string ShortKind(const std::string& kind);

// Whether `text` means the kind: it is the kind, or its parts between slashes
// are, whatever the case, part of the model and then parts of the kind in
// order. "H200", "h200/64u" and "h200/64u/cudnn-9.19" mean kinds of an H200.
bool MatchesKind(const std::string& text, const std::string& kind);

// The kinds of all devices, online or not, and of all measurements, sorted;
// their numbers in `ucudnn kinds` count from 1.
Result<std::vector<std::string>> KnownKinds(Connection& connection);

// The kind that `text` means: a whole kind stays as it is, known or not;
// otherwise the only known kind that it matches, or that has this number.
// kInvalidArgument: none or several.
Result<std::string> KindNamed(Connection& connection, const std::string& text);
// The kinds that each text, or each of its parts between commas, names.
Result<std::vector<std::string>> KindsNamed(
    Connection& connection, const std::vector<std::string>& texts);

// The only one of `ids` that `text` is or begins. kNotFound; kInvalidArgument:
// several.
Result<std::string> UniquePrefix(std::string_view what, const std::string& text,
                                 const std::vector<std::string>& ids);

// The text, if the coordinator knows a network of this name, or cannot tell.
// kNotFound, with the name most like it.
Result<std::string> NetworkNamed(Connection& connection,
                                 const std::string& text);
// The job, node or device with the id that `text` is or begins.
Result<std::string> JobNamed(Connection& connection, const std::string& text);
Result<std::string> NodeNamed(Connection& connection, const std::string& text);
Result<std::string> DeviceNamed(Connection& connection,
                                const std::string& text);

// "alice@host", for the record of who did what.
std::string WhoAmI();

// Adds --reason.
void AddReasonOption(CLI::App* command, std::string* reason);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_NAMES_H_
