#ifndef UCUDNN_CLIENT_CLI_COMMAND_H_
#define UCUDNN_CLIENT_CLI_COMMAND_H_

// What the commands of `ucudnn` share. Each file in solve/ and server/ adds one
// group of commands to the command line. Parsing selects one command;
// cli_main.cc runs it and turns its Status into the exit status.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/service/help.h"
#include "base/training/device_model.h"
#include "base/units.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ucudnn::ctl {

// The body of the command that the arguments selected.
using Chosen = std::function<Status()>;

// Has `body` run if the arguments select the command.
void OnChosen(CLI::App* command, Chosen* chosen, Chosen body);

// Looks up the measured device model of a kind.
using ModelOfKind = std::function<Result<DeviceModel>(const std::string& kind)>;

// 0 success; 2 malformed request; 3 no plan satisfies the constraints; 4 the
// service is unreachable or refused; 130 or 143 stopped by Ctrl-C or SIGTERM; 1
// any other error.
int ExitStatus(const Status& status);

// For what makes no plan: "cannot be done now" then ends with 1, not 3.
template <class Answer>
Answer OfNoPlan(Answer answer) {
  if (!answer && answer.error().code == Code::kFailedPrecondition) {
    answer.error().code = Code::kUnknown;
  }
  return answer;
}

enum class OutputFormat { kTable, kJson, kYaml };

// Adds `-o,--output table|json|yaml`.
void AddOutputOption(CLI::App* command, OutputFormat* format);

// An option whose value the help calls `name`; it may be empty if that is TEXT.
CLI::Option* AddTextOption(CLI::App* command, const std::string& flags,
                           const std::string& name, std::string* value,
                           const std::string& help);

// Adds an option that takes a size such as 8MiB; a malformed size is a parse
// error.
CLI::Option* AddBytesOption(CLI::App* command, const std::string& flags,
                            Bytes* value, const std::string& help);

// `--memory-budget SIZE[,...]`: of all ranks, or of each.
CLI::Option* AddMemoryBudgetOption(CLI::App* command,
                                   std::vector<Bytes>* budgets,
                                   const std::string& help);

// The names of these values of an enumeration.
template <class Values>
std::vector<std::string> NamesOf(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(Name(value));
  return names;
}

// Has the option accept these names alone, in any case. Returns the option.
CLI::Option* AcceptNames(CLI::Option* option,
                         const std::vector<std::string>& names);

// The text for a terminal, which control characters would control: those, and
// bytes that are not UTF-8, become \n, \t or \xNN.
std::string OneLine(std::string_view text);

// The width of the terminal that standard output is; 0 if it is none.
std::size_t TerminalWidth();

// How a table is written.
struct TableStyle {
  bool headers = true;
  // The most characters in a line, for which the widest cells are shortened; 0:
  // any number.
  std::size_t width = TerminalWidth();
};

// A table for people, whose cells are shown by OneLine. Each column is as wide
// as its widest cell; numbers (cells of up to two words that start with a
// digit, '+' or '-') are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void AddRow(std::vector<std::string> row);
  std::string Text(const TableStyle& style = {}) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Replaces the file `path` with `text`, or writes it to standard output if
// `path` is empty or "-". Errors of ReplaceFile (base/files/file.h); kDataLoss
// if writing to standard output fails.
Status WriteText(const std::string& path, const std::string& text);

// The notes that are not empty, a line each, by OneLine.
std::string Lines(const std::vector<std::string>& notes);

// Each ends with a line break.
std::string JsonText(const nlohmann::ordered_json& value);
std::string YamlText(const nlohmann::ordered_json& value);

// Writes to standard output in `format`: `value` as JSON or YAML, or `table`,
// in which no control characters but line breaks remain: what others wrote gets
// into it by OneLine. kDataLoss if that fails.
Status Print(OutputFormat format, const nlohmann::ordered_json& value,
             const std::function<std::string()>& table);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_COMMAND_H_
