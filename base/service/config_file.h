#ifndef UCUDNN_BASE_SERVICE_CONFIG_FILE_H_
#define UCUDNN_BASE_SERVICE_CONFIG_FILE_H_

// A daemon's options from a TOML file, whose keys are the long names of its
// command-line options:
//
//   listen = "0.0.0.0:7460"
//   lease-ms = 60_000
//
// The command line and the environment override the file.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/service/completion.h"
#include "base/service/credentials.h"
#include "base/service/help.h"

namespace ucudnn {

// Adds `--config FILE`, which sets `path`.
void AddConfigOption(CLI::App* app, std::string* path);

// Adds --ca, --cert, --key and --token-file with their environment variables
// (base/service/credentials.h).
void AddCredentialOptions(CLI::App* app, CredentialFiles* files);

// Reads the file and sets the variables behind `app`'s options, each checked as
// on the command line. Call it before `app` is parsed, so that the command line
// overrides them. Errors: as ReadFile (base/files/file.h), and
// kInvalidArgument, which names the file, the line, the key, the value and what
// would be accepted; some variables may already be set.
Status ReadConfigFile(const std::string& path, CLI::App& app);

// Parses the command line into a new `*line`, on top of the file that --config
// names, if any. CommandLine has the members `app`; `daemon`, the command of
// `app` that has --config; and `config`, the variable that --config sets.
// Throws what CLI::App::parse throws; returns the errors of ReadConfigFile.
template <class CommandLine>
Status ParseOverConfig(int argc, char** argv,
                       std::unique_ptr<CommandLine>* line) {
  *line = std::make_unique<CommandLine>();
  (*line)->app.parse(argc, argv);
  const std::string config = (*line)->config;
  if (config.empty()) return {};
  *line = std::make_unique<CommandLine>();
  UCUDNN_RETURN_IF_ERROR(ReadConfigFile(config, *(*line)->daemon));
  (*line)->app.parse(argc, argv);
  return {};
}

// The main function of a daemon: parses the command line as above, and runs
// `run(*line)`, which returns a Status. Prints errors to standard error, after
// the program's name. Returns the exit status: 2 for what is malformed, else 1.
template <class CommandLine, class Run>
int RunDaemon(int argc, char** argv, Run run) {
  if (AnswerCompletion(CommandLine().app, argc, argv)) return 0;
  std::unique_ptr<CommandLine> line;
  Status status;
  try {
    status = ParseOverConfig(argc, argv, &line);
  } catch (const CLI::ParseError& error) {
    return EndParsing(line->app, error, argc, argv);
  }
  if (status) status = run(*line);
  if (status) return 0;
  std::fprintf(stderr, "%s: %s\n", line->app.get_name().c_str(),
               status.error().message.c_str());
  return status.error().code == Code::kInvalidArgument ? 2 : 1;
}

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_CONFIG_FILE_H_
