#ifndef UCUDNN_CLIENT_CLI_COMPLETION_H_
#define UCUDNN_CLIENT_CLI_COMPLETION_H_

// Shell completion. `ucudnn completion bash|zsh|fish` prints a script for the
// shell, which calls `ucudnn complete-words WORDS...` for suggestions.

#include <string>
#include <vector>

#include "client/cli/command.h"

namespace ucudnn::ctl {

void AddCompletionCommand(CLI::App& app, Chosen* chosen);

// The sub-commands and long flags that may complete the last of `words`.
std::vector<std::string> Complete(const CLI::App& app,
                                  const std::vector<std::string>& words);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_COMPLETION_H_
