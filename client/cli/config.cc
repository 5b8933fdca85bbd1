#include "client/cli/config.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/files/file.h"
#include "base/service/config_file.h"
#include "client/config/coordinators.h"

namespace ucudnn::ctl {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Status ShowConfig(const Server& server, OutputFormat format) {
  const std::string path = ConfigPath();
  const bool exists = !path.empty() && std::filesystem::exists(path);
  const nlohmann::ordered_json json = {
      {"file", path}, {"exists", exists}, {"coordinator", server.coordinators}};
  return Print(format, json, [&] {
    Table table({"SETTING", "VALUE"});
    table.AddRow({"file", exists ? path : path + " (not there)"});
    table.AddRow({"coordinator", server.coordinators});
    return table.Text();
  });
}

Status SetCoordinator(const std::string& value) {
  if (auto checked = CheckCoordinators(value); !checked) {
    return Within("coordinator", std::move(checked).error());
  }
  const std::string path = ConfigPath();
  if (path.empty()) {
    return Fail(Code::kFailedPrecondition,
                "neither XDG_CONFIG_HOME nor HOME is set, so there is no place "
                "for config.toml");
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  if (error) {
    return Fail(Code::kUnavailable, "{}: {}", path, error.message());
  }
  UCUDNN_RETURN_IF_ERROR(
      ReplaceFile(path, fmt::format("coordinator = \"{}\"\n", value)));
  return WriteText("",
                   fmt::format("coordinator = \"{}\" in {}\n", value, path));
}

}  // namespace

std::string ConfigPath() {
  std::string folder = Variable("XDG_CONFIG_HOME");
  if (folder.empty()) {
    const std::string home = Variable("HOME");
    if (home.empty()) return "";
    folder = home + "/.config";
  }
  return folder + "/ucudnn/config.toml";
}

Status ReadConfig(CLI::App& app) {
  const std::string path = ConfigPath();
  if (path.empty() || !std::filesystem::exists(path)) return {};
  return ReadConfigFile(path, app);
}

void AddConfigCommand(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  CLI::App* config = app.add_subcommand("config",
                                        "Show the settings that apply when the "
                                        "command line gives none, and their "
                                        "file");
  AddOutputOption(config, format.get());
  const auto value = std::make_shared<std::string>();
  const auto key = std::make_shared<std::string>();
  CLI::App* set = config->add_subcommand("set", "Set one in the file");
  set->add_option("key", *key, "coordinator")
      ->required()
      ->check(CLI::IsMember({"coordinator"}))
      ->option_text("KEY");
  set->add_option("value", *value, "The value, such as coord-1:7460")
      ->required()
      ->option_text("VALUE");
  // The option refers to `key`, which lives as long as the callback.
  set->callback([key, value, chosen] {
    *chosen = [value] { return SetCoordinator(*value); };
  });
  config->callback([&server, format, set, chosen] {
    if (set->parsed()) return;
    *chosen = [&server, format] { return ShowConfig(server, *format); };
  });
}

}  // namespace ucudnn::ctl
