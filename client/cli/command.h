#ifndef UCUDNN_CLIENT_CLI_COMMAND_H_
#define UCUDNN_CLIENT_CLI_COMMAND_H_

// How the commands of `ucudnn` are put together. Each file of this folder adds
// one group of commands to the command line; parsing chooses one of them, and
// ctl_main.cc runs it and turns its Status into the exit status.

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn::ctl {

// The body of the command that the arguments chose.
using Chosen = std::function<Status()>;

// Adds `ucudnn solve ...`; one function for each of its problems.
void AddSolveCommands(CLI::App& app, Chosen* chosen);

// 0 done; 2 the request is malformed; 3 no plan satisfies the constraints; 4
// the service cannot be reached or refused; 1 anything else.
int ExitStatus(const Status& status);

enum class OutputFormat { kTable, kJson, kYaml };

// Adds `-o,--output table|json|yaml`.
void AddOutputOption(CLI::App* command, OutputFormat* format);

// An option that takes a size such as 8MiB; a bad one is a parse error.
CLI::Option* AddBytesOption(CLI::App* command, const std::string& flags,
                            Bytes* value, const std::string& help);

// A table for people: columns as wide as their widest cell, numbers (cells
// of up to two words that start with a digit, '+' or '-') right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void AddRow(std::vector<std::string> row);
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Replaces the file `path` by `text`; writes it to standard output if `path` is
// empty or "-". Errors of ReplaceFile (base/files/file.h), and kDataLoss if
// standard output cannot be written.
Status WriteText(const std::string& path, const std::string& text);

// Writes to standard output what `format` asks for: `value` as JSON or YAML,
// or `table`. kDataLoss if standard output cannot be written.
Status Print(OutputFormat format, const nlohmann::ordered_json& value,
             const std::function<std::string()>& table);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_COMMAND_H_
