#ifndef UCUDNN_BASE_SERVICE_HELP_H_
#define UCUDNN_BASE_SERVICE_HELP_H_

// What every program's command line says: defaults in --help, and what a
// mistyped command or option was meant to be.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
class ParseError;
class Validator;
}  // namespace CLI

namespace ucudnn {

// Makes --help of `app`, and of the commands that are added afterwards, show
// the defaults of options. Call it before adding options.
void ShowDefaults(CLI::App& app);

// Accepts numbers from `least` to `most`, and unlike CLI::Range no NaN.
CLI::Validator NumberIn(double least, double most);

// Accepts whole numbers that fit into 64 bits, which CLI11 would saturate.
CLI::Validator WholeNumber();

// An option whose text `read` takes; its errors are those of the option.
CLI::Option* AddReadOption(CLI::App* command, const std::string& flags,
                           std::function<Status(const std::string&)> read,
                           const std::string& help);
// One whose value is what `parse` returns, a Result.
template <class T, class Parse>
CLI::Option* AddReadOption(CLI::App* command, const std::string& flags,
                           T* value, Parse parse, const std::string& help) {
  return AddReadOption(
      command, flags,
      [value, parse](const std::string& text) -> Status {
        UCUDNN_ASSIGN_OR_RETURN(*value, parse(text));
        return {};
      },
      help);
}

// Names the first of the arguments (without the program's name) that is no
// command or option, and the one most like it: "there is no command 'plns'; did
// you mean plans?"; empty if there is no such argument.
std::string ExplainMistake(const CLI::App& app,
                           std::span<const char* const> arguments);

// The command that was parsed: "ucudnn networks put".
std::string CalledCommand(const CLI::App& app);

// Prints what parsing threw: --help and --version to standard output, mistakes
// to standard error. Returns the exit status: 0, or 2 for a mistake.
int EndParsing(const CLI::App& app, const CLI::ParseError& error, int argc,
               const char* const* argv);

// "; did you mean plans?" with what is most like the word, or "".
std::string DidYouMean(std::string_view word,
                       const std::vector<std::string>& known);
// The command of `app` with this name; null if there is none.
const CLI::App* CommandNamed(const CLI::App& app, std::string_view name);

// The options of the command and of its groups, which are nameless commands;
// and of these the positional ones.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& app);
std::vector<const CLI::Option*> PositionalsOf(const CLI::App& app);

// The long options ("--kind") of the command and its parents.
std::vector<std::string> FlagsAt(const CLI::App& app);

// The option of the command, its groups or its parents with this name, such as
// "--kind" or "-o"; null if there is none.
const CLI::Option* OptionNamed(const CLI::App& app, const std::string& name);

// "there is no command 'plns'; did you mean plans?".
std::string NoCommand(const CLI::App& app, std::string_view word);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_HELP_H_
