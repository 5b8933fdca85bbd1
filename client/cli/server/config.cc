#include "client/cli/server/config.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/files/file.h"
#include "base/service/config_file.h"
#include "base/text.h"
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
  nlohmann::ordered_json json = {
      {"file", path}, {"exists", exists}, {"coordinator", server.coordinators}};
  for (const auto& [key, value] :
       {std::pair{"ca", &server.credentials.ca},
        std::pair{"cert", &server.credentials.cert},
        std::pair{"key", &server.credentials.key},
        std::pair{"token-file", &server.credentials.token}}) {
    if (!value->empty()) json[key] = *value;
  }
  return Print(format, json, [&] {
    Table table({"SETTING", "VALUE"});
    for (const auto& [key, value] : json.items()) {
      if (key == "file") {
        table.AddRow({"file", exists ? path : path + " (not there)"});
      } else if (key != "exists") {
        table.AddRow({key, value});
      }
    }
    return table.Text();
  });
}

// The file's other lines, or nothing if there is no file.
Result<std::string> OtherLines(const std::string& path,
                               const std::string& key) {
  if (!std::filesystem::exists(path)) return std::string();
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1_MiB));
  std::istringstream lines(text);
  std::string others;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    const std::size_t end = line.find_first_of(" \t=", begin);
    if (begin != std::string::npos && line.substr(begin, end - begin) == key) {
      continue;
    }
    others += line + "\n";
  }
  return others;
}

Status SetConfig(const std::string& key, std::string value) {
  if (key == "coordinator") {
    if (auto checked = CheckCoordinators(value); !checked) {
      return Within(key, std::move(checked).error());
    }
  } else if (!value.empty()) {
    value = std::filesystem::absolute(value).lexically_normal().string();
  }
  if (!IsPlainText(value) ||
      value.find_first_of("\"\\\t") != std::string::npos) {
    return Fail(Code::kInvalidArgument,
                "{} = '{}': text without quotes, backslashes and tabs is "
                "accepted",
                key, Excerpt(value));
  }
  const std::string path = ConfigPath();
  if (path.empty()) {
    return Fail(Code::kFailedPrecondition,
                "neither XDG_CONFIG_HOME nor HOME is set, so there is no place "
                "for config.toml");
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::string others, OtherLines(path, key));
  UCUDNN_RETURN_IF_ERROR(
      ReplaceFile(path, fmt::format("{}{} = \"{}\"\n", others, key, value)));
  return WriteText("", fmt::format("{} = \"{}\" in {}\n", key, value, path));
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
  set->add_option("KEY", *key, "coordinator, ca, cert, key or token-file")
      ->required()
      ->check(
          CLI::IsMember({"coordinator", "ca", "cert", "key", "token-file"}));
  set->add_option("VALUE", *value, "The value, such as coord-1:7460")
      ->required();
  OnChosen(set, chosen, [key, value] { return SetConfig(*key, *value); });
  config->callback([&server, format, set, chosen] {
    if (set->parsed()) return;
    *chosen = [&server, format] { return ShowConfig(server, *format); };
  });
}

}  // namespace ucudnn::ctl
