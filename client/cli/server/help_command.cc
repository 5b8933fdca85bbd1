// `ucudnn help`.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/service/help.h"
#include "client/cli/server/completion.h"

namespace ucudnn::ctl {

void AddHelpCommand(CLI::App& app, Chosen* chosen) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* help =
      app.add_subcommand("help", "Show the help of a command, as --help does");
  help->add_option("COMMAND", *words, "The command, such as networks put");
  OnChosen(help, chosen, [&app, words]() -> Status {
    const CLI::App* at = &app;
    std::string before;
    for (const std::string& word : *words) {
      const CLI::App* next = CommandNamed(*at, word);
      if (next == nullptr) {
        return Fail(Code::kInvalidArgument, "{}", NoCommand(*at, word));
      }
      before += (before.empty() ? "" : " ") + at->get_name();
      at = next;
    }
    // Called on the root, help() shows the command that was parsed: this one.
    const auto formatter = at->get_formatter();
    return WriteText(
        "", formatter->make_help(
                at, (before.empty() ? "" : before + " ") + at->get_name(),
                CLI::AppFormatMode::Normal));
  });
}

}  // namespace ucudnn::ctl
