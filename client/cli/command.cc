#include "client/cli/command.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/files/file.h"
#include "base/plan/job_plan.h"
#include "base/service/signals.h"
#include "base/text.h"

namespace ucudnn::ctl {
namespace {

// Refuses "", as of a shell's variable that is not set.
CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("'' is given; a text is accepted")
                            : std::string();
      },
      "");
}

// OneLine, but for line breaks if they are `kept`.
std::string WithoutControls(std::string_view text, bool kept) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, Utf8Length(text));
    const std::string_view character = text.substr(0, length);
    text.remove_prefix(length);
    if (character == "\n") {
      shown += kept ? "\n" : "\\n";
    } else if (character == "\t") {
      shown += "\\t";
    } else if (IsPlainText(character)) {
      shown += character;
    } else {
      for (const char c : character) {
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
  }
  return shown;
}

// The number of UTF-8 characters, which is the width of a cell.
std::size_t Width(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(),
                    [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
}

// Whether the cell is a number, optionally followed by a unit: of other texts
// that begin with a digit, such as ids, others follow a letter.
bool IsNumber(const std::string& cell) {
  constexpr char kDigits[] = "0123456789";
  if (cell.empty() || std::count(cell.begin(), cell.end(), ' ') > 1) {
    return false;
  }
  if (cell[0] == '+' || cell[0] == '-') return true;
  const std::size_t unit = cell.find_first_not_of("0123456789.,");
  return unit != 0 && (unit == std::string::npos ||
                       cell.find_first_of(kDigits, unit) == std::string::npos);
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
    case nlohmann::ordered_json::value_t::null:
      out << YAML::Null;
      return;
    default:
      out << value.dump();
  }
}

// Cuts the cell to `width` characters, the last of which then is an ellipsis.
std::string Shortened(const std::string& cell, std::size_t width) {
  if (Width(cell) <= width) return cell;
  std::size_t bytes = 0;
  for (std::size_t left = width - 1; left > 0; --left) {
    do {
      ++bytes;
    } while ((static_cast<unsigned char>(cell[bytes]) & 0xC0U) == 0x80U);
  }
  return cell.substr(0, bytes) + "…";
}

// Takes characters from the widest columns until the line fits; none gets
// narrower than a few.
void Narrow(std::size_t most, std::vector<std::size_t>* widths) {
  constexpr std::size_t kLeast = 8;
  constexpr std::size_t kGap = 2;
  std::size_t line = kGap * (widths->size() - 1);
  for (const std::size_t width : *widths) line += width;
  while (line > most) {
    const auto widest = std::max_element(widths->begin(), widths->end());
    if (*widest <= kLeast) return;
    --*widest;
    --line;
  }
}

}  // namespace

std::string OneLine(std::string_view text) {
  return WithoutControls(text, false);
}

std::size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

int ExitStatus(const Status& status) {
  if (status) return 0;
  switch (status.error().code) {
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return 2;
    case Code::kFailedPrecondition:
      return 3;
    case Code::kUnavailable:
    case Code::kAborted:  // measurements are missing
    case Code::kDeadlineExceeded:
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
    case Code::kResourceExhausted:
      return 4;
    case Code::kCancelled:  // another rank's signal, if this one has none
      return 128 + (StopSignal() != 0 ? StopSignal() : SIGINT);
    default:
      return 1;
  }
}

void OnChosen(CLI::App* command, Chosen* chosen, Chosen body) {
  command->callback([chosen, body = std::move(body)] { *chosen = body; });
}

void AddOutputOption(CLI::App* command, OutputFormat* format) {
  static constexpr std::array<std::string_view, 3> kFormats = {"table", "json",
                                                               "yaml"};
  const auto number = [](std::string& text) {
    const auto found = std::ranges::find(kFormats, text);
    if (found == kFormats.end()) {
      return fmt::format("'{}' is given; table, json or yaml is accepted here",
                         Excerpt(text));
    }
    text = std::to_string(found - kFormats.begin());  // the enumerator
    return std::string();
  };
  command
      ->add_option("-o,--output", *format, "Output format: table, json or yaml")
      ->transform(CLI::Validator(number, ""))
      ->option_text("FORMAT")
      ->default_str("table");
}

CLI::Option* AddTextOption(CLI::App* command, const std::string& flags,
                           const std::string& name, std::string* value,
                           const std::string& help) {
  CLI::Option* const option =
      command->add_option(flags, *value, help)->option_text(name);
  return name == "TEXT" ? option : option->check(NotEmpty());
}

CLI::Option* AddBytesOption(CLI::App* command, const std::string& flags,
                            Bytes* value, const std::string& help) {
  return AddReadOption(command, flags, value, ParseBytes, help)
      ->option_text("SIZE");
}

CLI::Option* AddMemoryBudgetOption(CLI::App* command,
                                   std::vector<Bytes>* budgets,
                                   const std::string& help) {
  return AddReadOption(command, "--memory-budget", budgets, ParseBudgets, help)
      ->option_text("SIZE[,...]");
}

CLI::Option* AcceptNames(CLI::Option* option,
                         const std::vector<std::string>& names) {
  return option->transform(CLI::IsMember(names, CLI::ignore_case));
}

Table::Table(std::vector<std::string> header) { AddRow(std::move(header)); }

void Table::AddRow(std::vector<std::string> row) {
  UCUDNN_CHECK(rows_.empty() || row.size() == rows_[0].size());
  for (std::string& cell : row) cell = OneLine(cell);
  rows_.push_back(std::move(row));
}

std::string Table::Text(const TableStyle& style) const {
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
  if (style.width > 0) Narrow(style.width, &widths);
  std::string text;
  for (std::size_t r = style.headers ? 0 : 1; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string cell = Shortened(rows_[r][c], widths[c]);
      const std::string padding(widths[c] - Width(cell), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? padding + cell : cell + padding;
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

std::string Lines(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) {
    if (!note.empty()) text += OneLine(note) + "\n";
  }
  return text;
}

std::string JsonText(const nlohmann::ordered_json& value) {
  return value.dump(2, ' ', false,
                    nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string YamlText(const nlohmann::ordered_json& value) {
  YAML::Emitter out;
  Emit(out, value);
  return std::string(out.c_str()) + "\n";
}

Status Print(OutputFormat format, const nlohmann::ordered_json& value,
             const std::function<std::string()>& table) {
  std::string text;
  switch (format) {
    case OutputFormat::kTable:
      text = WithoutControls(table(), true);
      break;
    case OutputFormat::kJson:
      text = JsonText(value);
      break;
    case OutputFormat::kYaml:
      text = YamlText(value);
      break;
  }
  return WriteText("", text);
}

}  // namespace ucudnn::ctl
