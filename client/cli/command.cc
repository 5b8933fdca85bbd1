#include "client/cli/command.h"

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/files/file.h"

namespace ucudnn::ctl {
namespace {

// The number of UTF-8 characters, which is the width of a cell.
std::size_t Width(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(),
                    [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
}

// Whether the cell is a number, optionally followed by a space and a unit.
bool IsNumber(const std::string& cell) {
  return !cell.empty() && std::count(cell.begin(), cell.end(), ' ') < 2 &&
         (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
          cell[0] == '+' || cell[0] == '-');
}

// Whether YAML would read the text, in any case, as a boolean or null.
bool IsYamlWord(std::string text) {
  constexpr std::array<std::string_view, 9> kWords = {
      "true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return std::ranges::find(kWords, text) != kWords.end();
}

void Emit(YAML::Emitter& out, const nlohmann::ordered_json& value) {
  switch (value.type()) {
    case nlohmann::ordered_json::value_t::object:
      out << YAML::BeginMap;
      for (const auto& [key, member] : value.items()) {
        out << YAML::Key << key << YAML::Value;
        Emit(out, member);
      }
      out << YAML::EndMap;
      return;
    case nlohmann::ordered_json::value_t::array:
      out << YAML::BeginSeq;
      for (const auto& element : value) Emit(out, element);
      out << YAML::EndSeq;
      return;
    case nlohmann::ordered_json::value_t::string: {
      // Quoted where YAML would read plain text as something else.
      const std::string& text = value.get_ref<const std::string&>();
      const bool plain = !text.empty() &&
                         std::isalpha(static_cast<unsigned char>(text[0])) &&
                         !IsYamlWord(text);
      if (plain) {
        out << text;
      } else {
        out << YAML::DoubleQuoted << text;
      }
      return;
    }
    default:
      out << value.dump();
  }
}

}  // namespace

int ExitStatus(const Status& status) {
  if (status) return 0;
  switch (status.error().code) {
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return 2;
    case Code::kFailedPrecondition:
      return 3;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
    case Code::kResourceExhausted:
      return 4;
    default:
      return 1;
  }
}

void AddOutputOption(CLI::App* command, OutputFormat* format) {
  static const std::map<std::string, OutputFormat> kFormats = {
      {"table", OutputFormat::kTable},
      {"json", OutputFormat::kJson},
      {"yaml", OutputFormat::kYaml}};
  command
      ->add_option("-o,--output", *format, "Output format: table, json or yaml")
      ->transform(CLI::CheckedTransformer(kFormats).description(""))
      ->option_text("FORMAT");
}

CLI::Option* AddBytesOption(CLI::App* command, const std::string& flags,
                            Bytes* value, const std::string& help) {
  return command
      ->add_option_function<std::string>(
          flags,
          [value, flags](const std::string& text) {
            const Result<Bytes> parsed = ParseBytes(text);
            if (!parsed) {
              throw CLI::ValidationError(flags, parsed.error().message);
            }
            *value = *parsed;
          },
          help)
      ->option_text("SIZE");
}

Table::Table(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void Table::AddRow(std::vector<std::string> row) {
  UCUDNN_CHECK(row.size() == rows_[0].size());
  rows_.push_back(std::move(row));
}

std::string Table::Text() const {
  const std::size_t columns = rows_[0].size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string& cell = rows_[r][c];
      widths[c] = std::max(widths[c], Width(cell));
      if (r > 0 && !IsNumber(cell)) right[c] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - Width(row[c]), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? padding + row[c] : row[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Status WriteText(const std::string& path, const std::string& text) {
  if (!path.empty() && path != "-") return ReplaceFile(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0) {
    return Fail(Code::kDataLoss, "cannot write to standard output");
  }
  return {};
}

Status Print(OutputFormat format, const nlohmann::ordered_json& value,
             const std::function<std::string()>& table) {
  std::string text;
  switch (format) {
    case OutputFormat::kTable:
      text = table();
      break;
    case OutputFormat::kJson:
      text = value.dump(2, ' ', false,
                        nlohmann::ordered_json::error_handler_t::replace) +
             "\n";
      break;
    case OutputFormat::kYaml: {
      YAML::Emitter out;
      Emit(out, value);
      text = std::string(out.c_str()) + "\n";
      break;
    }
  }
  return WriteText("", text);
}

}  // namespace ucudnn::ctl
