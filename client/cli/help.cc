#include "client/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace ucudnn::ctl {
namespace {

// Adds the default to options that say themselves what they take.
class Formatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::string takes = option->get_option_text();
    const std::string value = option->get_default_str();
    if (takes.empty() || option->get_type_size() == 0 || value.empty() ||
        value == "[]" || value == "{}" || value == "\"\"") {
      return text;
    }
    return text.insert(text.find(takes) + takes.size(), "=" + value);
  }
};

// The least number of inserted, deleted, replaced and swapped characters that
// make `a` of `b`. O(|a| |b|).
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string Question(std::string_view word,
                     const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // What is typed in part is nearer than what is typed wrong.
    const std::size_t distance =
        candidate.starts_with(word) ? 1 : Distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : fmt::format("; did you mean {}?", *best);
}

void AddNames(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names->push_back("--" + name);
    }
  }
  // Groups of options are nameless commands.
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (group->get_name().empty()) AddNames(*group, names);
  }
}

// Whether the option `name` of the command takes a value.
bool TakesValue(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->check_name(name)) return option->get_type_size() != 0;
  }
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (group->get_name().empty() && TakesValue(*group, name)) return true;
  }
  return app.get_parent() != nullptr && TakesValue(*app.get_parent(), name);
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_name().empty() && !command->get_group().empty()) {
      names.push_back(command->get_name());
    }
  }
  return names;
}

bool TakesWords(const CLI::App& app) {
  return std::ranges::any_of(app.get_options(),
                             [](const CLI::Option* option) {
                               return option->get_positional();
                             }) ||
         std::ranges::any_of(app.get_subcommands(nullptr),
                             [](const CLI::App* g) {
                               return g->get_name().empty() && TakesWords(*g);
                             });
}

const CLI::App* CommandNamed(const CLI::App& app, std::string_view name) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_name().empty() && command->get_name() == name) {
      return command;
    }
  }
  return nullptr;
}

std::string NoCommand(const CLI::App& app, std::string_view word) {
  return fmt::format("there is no command '{}'{}", Excerpt(word, 40),
                     Question(word, CommandsOf(app)));
}

}  // namespace

void ShowDefaults(CLI::App& app) {
  app.formatter(std::make_shared<Formatter>());
  app.option_defaults()->always_capture_default();
}

void AddHelpCommand(CLI::App& app, Chosen* chosen) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* help =
      app.add_subcommand("help", "Show the help of a command, as --help does");
  help->add_option("command", *words, "The command, such as networks put")
      ->option_text("COMMAND...");
  help->callback([&app, words, chosen] {
    *chosen = [&app, words]() -> Status {
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
    };
  });
}

std::string ExplainMistake(const CLI::App& app,
                           std::span<const char* const> arguments) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == "--") return "";
    if (word.starts_with("--")) {
      const std::string name(word.substr(0, word.find('=')));
      std::vector<std::string> known;
      for (const CLI::App* of = at; of != nullptr; of = of->get_parent()) {
        AddNames(*of, &known);
      }
      if (std::ranges::find(known, name) == known.end()) {
        return fmt::format("there is no option {}{}", Excerpt(name, 40),
                           Question(name, known));
      }
      if (name.size() == word.size() && TakesValue(*at, name)) ++i;
      continue;
    }
    if (word.starts_with('-') && word.size() > 1) {
      if (word.size() == 2 && TakesValue(*at, std::string(word))) ++i;
      continue;
    }
    if (const CLI::App* command = CommandNamed(*at, word)) {
      at = command;
      continue;
    }
    if (!CommandsOf(*at).empty() && !TakesWords(*at)) {
      return NoCommand(*at, word);
    }
  }
  return "";
}

}  // namespace ucudnn::ctl
