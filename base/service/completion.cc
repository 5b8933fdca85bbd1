#include "base/service/completion.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/service/help.h"

namespace ucudnn {
namespace {

constexpr unsigned kMostSeconds = 2;

constexpr std::string_view kBash = R"sh(_ucudnn() {
  mapfile -t COMPREPLY < <("$1" complete-words \
    "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [ ${#COMPREPLY[@]} -eq 0 ]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}")
  fi
}
complete -F _ucudnn ucudnn ucudnn-agent ucudnn-coord ucudnn-glpk ucudnn-train
)sh";

constexpr std::string_view kZsh =
    R"sh(#compdef ucudnn ucudnn-agent ucudnn-coord ucudnn-glpk ucudnn-train
_ucudnn() {
  local -a found
  found=(${(f)"$($words[1] complete-words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -- $found; else _files; fi
}
if [[ $funcstack[1] = _ucudnn* ]]; then
  _ucudnn "$@"
else
  compdef _ucudnn ucudnn ucudnn-agent ucudnn-coord ucudnn-glpk ucudnn-train
fi
)sh";

constexpr std::string_view kFish =
    R"sh(for program in ucudnn ucudnn-agent ucudnn-coord ucudnn-glpk ucudnn-train
  complete -c $program -a '(set -l words (commandline -opc); $words[1] complete-words $words[2..-1] (commandline -ct) 2>/dev/null)'
end
)sh";

// The values that the help lists: {a,b}, or a->0 of {a->0,b->1}.
std::vector<std::string> Enumerated(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<std::string> values =
      CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
  for (std::string& value : values) value = value.substr(0, value.find("->"));
  return values;
}

std::vector<std::string> Values(const CLI::Option& option,
                                const ValuesOf& values_of) {
  std::vector<std::string> values = Enumerated(option);
  if (values.empty() && values_of != nullptr) values = values_of(option);
  return values;
}

// What was typed before the last word.
struct Typed {
  const CLI::App* command = nullptr;
  const CLI::Option* awaited = nullptr;  // the option whose value comes next
  std::size_t positionals = 0;
};

Typed Read(const CLI::App& app, const std::vector<std::string>& words) {
  Typed typed{&app, nullptr, 0};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "=") continue;
    if (typed.awaited != nullptr) {
      typed.awaited = nullptr;
      continue;
    }
    if (word.starts_with('-') && word.size() > 1) {
      const CLI::Option* option = OptionNamed(*typed.command, word);
      if (option != nullptr && option->get_type_size() != 0) {
        typed.awaited = option;
      }
      continue;
    }
    if (const CLI::App* command = CommandNamed(*typed.command, word)) {
      typed.command = command;
      typed.positionals = 0;
    } else {
      ++typed.positionals;
    }
  }
  return typed;
}

// The words that may stand at the end, whatever was begun.
std::vector<std::string> Candidates(const Typed& typed,
                                    const std::string& begun,
                                    const ValuesOf& values_of) {
  if (typed.awaited != nullptr) return Values(*typed.awaited, values_of);
  std::vector<std::string> found;
  if (const std::size_t equals = begun.find('=');
      begun.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option =
        OptionNamed(*typed.command, begun.substr(0, equals));
    if (option == nullptr) return {};
    for (const std::string& value : Values(*option, values_of)) {
      found.push_back(begun.substr(0, equals + 1) + value);
    }
    return found;
  }
  if (!begun.starts_with('-')) {
    for (const CLI::App* sub : typed.command->get_subcommands(nullptr)) {
      if (!sub->get_name().empty() && !sub->get_group().empty()) {
        found.push_back(sub->get_name());
      }
    }
    const std::vector<const CLI::Option*> options =
        PositionalsOf(*typed.command);
    if (!options.empty() && typed.positionals < options.size()) {
      for (std::string& value :
           Values(*options[typed.positionals], values_of)) {
        found.push_back(std::move(value));
      }
    } else if (!options.empty() && options.back()->get_items_expected_max() >
                                       1) {  // the last takes the rest
      found = Values(*options.back(), values_of);
    }
    if (!found.empty() || !options.empty()) return found;
  }
  return FlagsAt(*typed.command);
}

}  // namespace

std::vector<std::string> Complete(const CLI::App& app,
                                  const std::vector<std::string>& words,
                                  const ValuesOf& values_of) {
  std::string begun = words.empty() ? "" : words.back();
  if (begun == "=") begun.clear();
  std::vector<std::string> found =
      Candidates(Read(app, words), begun, values_of);
  std::erase_if(
      found, [&](const std::string& word) { return !word.starts_with(begun); });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool AnswerCompletion(const CLI::App& app, int argc, const char* const* argv,
                      const ValuesOf& values_of) {
  if (argc < 2 || std::strcmp(argv[1], "complete-words") != 0) return false;
  alarm(kMostSeconds);
  const std::vector<std::string> words(argv + 2, argv + argc);
  for (const std::string& word : Complete(app, words, values_of)) {
    std::printf("%s\n", word.c_str());
  }
  return true;
}

std::string_view CompletionScript(std::string_view shell) {
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : kBash;
}

}  // namespace ucudnn
