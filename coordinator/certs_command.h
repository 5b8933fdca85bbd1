#ifndef UCUDNN_COORDINATOR_CERTS_COMMAND_H_
#define UCUDNN_COORDINATOR_CERTS_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace ucudnn {

// Adds `certs init|issue|revoke|token`. Parsing one of them sets `run` to what
// it does.
void AddCertsCommand(CLI::App* app, std::function<Status()>* run);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CERTS_COMMAND_H_
