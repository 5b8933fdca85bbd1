#include "base/service/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/files/file.h"

namespace ucudnn {
namespace {

// One line of the file.
struct Setting {
  std::uint32_t line = 0;
  std::string key;
  const toml::node* value = nullptr;
};

std::vector<Setting> InFileOrder(const toml::table& table) {
  std::vector<Setting> settings;
  for (const auto& [key, value] : table) {
    settings.push_back(
        {key.source().begin.line, std::string(key.str()), &value});
  }
  std::sort(settings.begin(), settings.end(),
            [](const Setting& a, const Setting& b) { return a.line < b.line; });
  return settings;
}

// The value as written on the command line. kInvalidArgument for tables, dates
// and times.
Result<std::string> ScalarText(const toml::node& value) {
  if (const auto text = value.value_exact<std::string>()) return *text;
  if (const auto number = value.value_exact<std::int64_t>()) {
    return std::to_string(*number);
  }
  if (const auto number = value.value_exact<double>()) {
    return fmt::format("{}", *number);
  }
  if (const auto truth = value.value_exact<bool>()) {
    return std::string(*truth ? "true" : "false");
  }
  return Fail(Code::kInvalidArgument,
              "a string, a number, true, false or a list of these is accepted");
}

Result<std::vector<std::string>> Texts(const toml::node& value) {
  std::vector<std::string> texts;
  if (!value.is_array()) {
    UCUDNN_ASSIGN_OR_RETURN(std::string text, ScalarText(value));
    texts.push_back(std::move(text));
    return texts;
  }
  for (const toml::node& element : *value.as_array()) {
    UCUDNN_ASSIGN_OR_RETURN(std::string text, ScalarText(element));
    texts.push_back(std::move(text));
  }
  if (texts.empty()) {
    return Fail(Code::kInvalidArgument,
                "a list of at least one value is accepted");
  }
  return texts;
}

std::vector<std::string> Keys(const CLI::App& app) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_configurable() && !option->get_lnames().empty()) {
      keys.push_back(option->get_lnames().front());
    }
  }
  return keys;
}

// CLI11's reason for refusing a value, without the option's name that its
// messages, such as "--lease-ms: Value 5 not in range 100 to 1000", begin with.
std::string Reason(const CLI::Error& error, const CLI::Option& option) {
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return option.get_type_name() + " is accepted";
  }
  const std::string text = error.what();
  const std::string prefix = option.get_name() + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

Status Apply(const Setting& setting, CLI::App& app) {
  const std::vector<std::string> keys = Keys(app);
  if (std::find(keys.begin(), keys.end(), setting.key) == keys.end()) {
    return Fail(Code::kInvalidArgument,
                "there is no setting '{}'; accepted are {}", setting.key,
                fmt::join(keys, ", "));
  }
  Result<std::vector<std::string>> texts = Texts(*setting.value);
  if (!texts) return Within(setting.key, std::move(texts).error());
  CLI::Option& option = *app.get_option("--" + setting.key);
  try {
    option.add_result(*texts);
    option.run_callback();
    option.clear();
  } catch (const CLI::Error& error) {
    std::string shown = fmt::format("{}", fmt::join(*texts, ","));
    // A database's URL or connection string may hold a password.
    if (const std::size_t at = std::min(shown.find("://"),
                                        shown.find("password"));
        at != std::string::npos) {
      shown.replace(at, std::string::npos, "...");
    }
    return Fail(Code::kInvalidArgument, "{} = '{}': {}", setting.key, shown,
                Reason(error, option));
  }
  return {};
}

Result<toml::table> Parse(const std::string& path, const std::string& text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalidArgument, "{}:{}: {}", path,
                error.source().begin.line, error.description());
  }
}

}  // namespace

void AddConfigOption(CLI::App* app, std::string* path) {
  app->add_option("--config", *path,
                  "Read options from this TOML file; options given here win")
      ->configurable(false)
      ->option_text("FILE");
}

void AddCredentialOptions(CLI::App* app, CredentialFiles* files) {
  const auto add = [&](const char* name, std::string* path,
                       const char* variable, const char* help) {
    app->add_option(name, *path, help)->option_text("PATH")->envname(variable);
  };
  add("--ca", &files->ca, kCaVariable,
      "Reach coordinators over TLS: their authority's certificate");
  add("--cert", &files->cert, kCertVariable, "The certificate to show them");
  add("--key", &files->key, kKeyVariable, "Its private key, of mode 0600");
  add("--token-file", &files->token, kTokenFileVariable,
      "A file of mode 0600 with a token to show instead");
}

Status ReadConfigFile(const std::string& path, CLI::App& app) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          OfInput(ReadFile(path, 1_MiB)));
  UCUDNN_ASSIGN_OR_RETURN(const toml::table table, Parse(path, text));
  for (const Setting& setting : InFileOrder(table)) {
    if (Status applied = Apply(setting, app); !applied) {
      return Within(fmt::format("{}:{}", path, setting.line),
                    std::move(applied).error());
    }
  }
  return {};
}

}  // namespace ucudnn
