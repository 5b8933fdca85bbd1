#include "base/service/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <regex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ucudnn {
namespace {

// Adds the default to options that say themselves what they take, and shortens
// what CLI11 says of others: {a,b} for TEXT:{a,b}, --no-x for --no-x{false}.
class Formatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option,
                               bool positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, positional);
    return name.substr(0, name.find("{false}"));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    // Their names say what they are; the usage line, which must be given.
    if (option->get_positional()) {
      return option->get_items_expected_max() > 1 ? " ..." : "";
    }
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::string type = option->get_type_name();
    const std::string takes = option->get_option_text();
    std::string value = option->get_default_str();
    if (takes.empty()) {
      if (const std::size_t colon = type.find(':');
          colon != std::string::npos) {
        text.erase(text.find(type), colon + 1);
      }
      // What must be given has no default.
      if (const std::size_t at = text.find("=" + value);
          option->get_required() && at != std::string::npos) {
        text.erase(at, value.size() + 1);
      }
      return text;
    }
    if (value.starts_with('[') && value.ends_with(']')) {
      value = value.substr(1, value.size() - 2);
    }
    if (option->get_required() || option->get_items_expected_max() == 0 ||
        value.empty() || value == "{}" || value == "\"\"") {
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

}  // namespace

std::string DidYouMean(std::string_view word,
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

namespace {

// Whether the option `name` of the command takes a value.
bool TakesValue(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = OptionNamed(app, name);
  return option != nullptr && option->get_items_expected_max() > 0;
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

}  // namespace

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (!group->get_name().empty()) continue;
    const std::vector<const CLI::Option*> of_group = OptionsOf(*group);
    options.insert(options.end(), of_group.begin(), of_group.end());
  }
  return options;
}

std::vector<const CLI::Option*> PositionalsOf(const CLI::App& app) {
  std::vector<const CLI::Option*> options = OptionsOf(app);
  std::erase_if(options, [](const CLI::Option* option) {
    return !option->get_positional();
  });
  return options;
}

std::vector<std::string> FlagsAt(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : OptionsOf(*at)) {
      for (const std::string& name : option->get_lnames()) {
        flags.push_back("--" + name);
      }
    }
  }
  return flags;
}

void ShowDefaults(CLI::App& app) {
  app.formatter(std::make_shared<Formatter>());
  app.option_defaults()->always_capture_default();
}

CLI::Option* AddReadOption(CLI::App* command, const std::string& flags,
                           std::function<Status(const std::string&)> read,
                           const std::string& help) {
  return command->add_option_function<std::string>(
      flags,
      [flags, read = std::move(read)](const std::string& text) {
        const Status done = read(text);
        if (!done) throw CLI::ValidationError(flags, done.error().message);
      },
      help);
}

CLI::Validator NumberIn(double least, double most) {
  return CLI::Validator(
      [=](const std::string& text) {
        double number = 0;
        if (CLI::detail::lexical_cast(text, number) && number >= least &&
            number <= most) {
          return std::string();
        }
        return fmt::format("'{}' is given; a number from {} to {} is accepted",
                           Excerpt(text), least, most);
      },
      fmt::format("FLOAT in [{} - {}]", least, most));
}

CLI::Validator WholeNumber() {
  return CLI::Validator(
      [](const std::string& text) {
        std::uint64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, number);
        if (read.ec == std::errc() && read.ptr == end) return std::string();
        return fmt::format(
            "'{}' is given; a whole number from 0 to {} is accepted",
            Excerpt(text), std::numeric_limits<std::uint64_t>::max());
      },
      "");
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
                     DidYouMean(word, CommandsOf(app)));
}

const CLI::Option* OptionNamed(const CLI::App& app, const std::string& name) {
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : OptionsOf(*at)) {
      if (option->check_name(name)) return option;
    }
  }
  return nullptr;
}

std::string ExplainMistake(const CLI::App& app,
                           std::span<const char* const> arguments) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == "--") return "";
    if (word.starts_with("--")) {
      const std::string name(word.substr(0, word.find('=')));
      const std::vector<std::string> known = FlagsAt(*at);
      if (std::ranges::find(known, name) == known.end()) {
        return fmt::format("there is no option {}{}", Excerpt(name, 40),
                           DidYouMean(name, known));
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
    if (!CommandsOf(*at).empty() && PositionalsOf(*at).empty()) {
      return NoCommand(*at, word);
    }
  }
  return "";
}

namespace {

// What CLI11 says, in the words of our own errors.
std::string Plainly(std::string text) {
  static const std::array<std::pair<std::regex, const char*>, 3> kWords = {{
      {std::regex(R"(Exactly 1 option from \[(.*)\])"), "one of $1"},
      {std::regex(R"((.*): (.*) not in \{(.*)\})"),
       "$1: '$2' is given; one of $3 is accepted"},
      {std::regex("Value (.*) not in range (.*) to (.*)"),
       "'$1' is given; $2 to $3 is accepted"},
  }};
  for (const auto& [theirs, ours] : kWords) {
    text = std::regex_replace(text, theirs, ours);
  }
  return text;
}

// The command that was being parsed.
const CLI::App& CalledIn(const CLI::App& app) {
  const CLI::App* at = &app;
  while (true) {
    const auto parsed = at->get_subcommands();
    const auto next = std::ranges::find_if(
        parsed, [](const CLI::App* c) { return !c->get_name().empty(); });
    if (next == parsed.end()) return *at;
    at = *next;
  }
}

}  // namespace

std::string CalledCommand(const CLI::App& app) {
  const CLI::App& called = CalledIn(app);
  std::string name = called.get_name();
  for (const CLI::App* of = called.get_parent(); of != nullptr;
       of = of->get_parent()) {
    name.insert(0, of->get_name() + " ");
  }
  return name;
}

int EndParsing(const CLI::App& app, const CLI::ParseError& error, int argc,
               const char* const* argv) {
  // CLI11 reports --help and --version as errors with exit code 0.
  if (error.get_exit_code() == 0) return app.exit(error);
  const std::string mistake = ExplainMistake(
      app, std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  const CLI::App& called = CalledIn(app);
  if (mistake.empty() && called.get_require_subcommand_min() > 0 &&
      called.get_subcommands().empty()) {
    std::fputs(called.help().c_str(), stderr);
    return 2;
  }
  std::fprintf(stderr, "%s: %s\nSee `%s --help`.\n", app.get_name().c_str(),
               (mistake.empty() ? Plainly(error.what()) : mistake).c_str(),
               CalledCommand(app).c_str());
  return 2;
}

}  // namespace ucudnn
