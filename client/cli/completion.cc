#include "client/cli/completion.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

namespace ucudnn::ctl {
namespace {

constexpr std::string_view kBash = R"(_ucudnn() {
  local words
  words=$(ucudnn complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _ucudnn ucudnn
)";

constexpr std::string_view kFish =
    R"(complete -c ucudnn -a '(ucudnn complete-words -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
)";

}  // namespace

std::vector<std::string> Complete(const CLI::App& app,
                                  const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    for (const CLI::App* sub : at->get_subcommands(nullptr)) {
      if (sub->get_name() == words[i]) {
        at = sub;
        break;
      }
    }
  }
  const std::string begun = words.empty() ? "" : words.back();
  std::vector<std::string> found;
  const auto offer = [&](const std::string& word) {
    if (word.starts_with(begun)) found.push_back(word);
  };
  for (const CLI::App* sub : at->get_subcommands(nullptr)) {
    if (!sub->get_group().empty()) offer(sub->get_name());
  }
  for (const CLI::Option* option : at->get_options()) {
    for (const std::string& name : option->get_lnames()) offer("--" + name);
  }
  return found;
}

void AddCompletionCommand(CLI::App& app, Chosen* chosen) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand(
      "completion",
      "Print a shell script that completes commands and flags; use it by "
      "source <(ucudnn completion bash)");
  completion->add_option("shell", *shell, "The shell: bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([shell, chosen] {
    *chosen = [shell]() -> Status {
      if (*shell == "zsh") {
        std::printf("autoload -U +X bashcompinit && bashcompinit\n");
      }
      const std::string_view script = *shell == "fish" ? kFish : kBash;
      std::printf("%.*s", static_cast<int>(script.size()), script.data());
      return {};
    };
  });

  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* complete = app.add_subcommand("complete-words");
  complete->group("");  // not in the help
  complete->add_option("words", *words);
  complete->callback([&app, words, chosen] {
    *chosen = [&app, words]() -> Status {
      for (const std::string& word : Complete(app, *words)) {
        std::printf("%s\n", word.c_str());
      }
      return {};
    };
  });
}

}  // namespace ucudnn::ctl
