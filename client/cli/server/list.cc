#include "client/cli/server/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/service/backoff.h"
#include "base/service/host.h"
#include "base/text.h"
#include "client/cli/server/json_path.h"
#include "client/cli/server/names.h"

namespace ucudnn::ctl {
namespace {

constexpr Milliseconds kWatchInterval{2'000};
constexpr char kPathPrefix[] = "jsonpath=";

struct ListOptions {
  std::string output = "table";
  bool headers = true;
  bool watch = false;
  std::string sort_by;
  std::vector<std::string> filters;
  v1::ListRequest page;
};

std::string Lower(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string PlainText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string Shown(const Json& value) {
  if (value.is_null() || value == "") return "-";
  return PlainText(value);
}

// The member that `key` names: by itself or by a column's header.
std::string MemberNamed(const List& list, const std::string& key) {
  for (const Column& column : list.columns) {
    if (Lower(column.header) == Lower(key)) return column.member;
  }
  return key;
}

// kInvalidArgument if no entry has the member.
Status CheckMember(const List& list, const Json& entries,
                   const std::string& flag, const std::string& key) {
  const std::string member = MemberNamed(list, key);
  if (entries.empty() || member != key) return {};
  for (const Json& entry : entries) {
    if (!Member(entry, member).is_null()) return {};
  }
  std::vector<std::string> accepted;
  for (const Column& column : list.columns) {
    accepted.push_back(Lower(column.header));
  }
  return Fail(Code::kInvalidArgument,
              "{}: there is no '{}'; {} and the members of -o json are "
              "accepted",
              flag, Excerpt(key), fmt::join(accepted, ", "));
}

bool Matches(const Json& value, const std::string& wanted) {
  if (value.is_array()) {
    return std::any_of(value.begin(), value.end(), [&](const Json& element) {
      return Matches(element, wanted);
    });
  }
  const std::string text = PlainText(value);
  return Lower(text) == Lower(wanted) ||
         (value.is_string() && MatchesKind(wanted, text));
}

Status Filter(const List& list, const std::vector<std::string>& filters,
              Json* entries) {
  for (const std::string& filter : filters) {
    const std::size_t equals = filter.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(Code::kInvalidArgument,
                  "--filter: '{}' is given; key=value is accepted",
                  Excerpt(filter));
    }
    const std::string key = filter.substr(0, equals);
    UCUDNN_RETURN_IF_ERROR(CheckMember(list, *entries, "--filter", key));
    const std::string member = MemberNamed(list, key);
    const std::string wanted = filter.substr(equals + 1);
    Json kept = Json::array();
    Json of_host = Json::array();
    for (const Json& entry : *entries) {
      const Json& value = Member(entry, member);
      if (Matches(value, wanted)) kept.push_back(entry);
      if (SameHost(PlainText(value), wanted)) of_host.push_back(entry);
    }
    // Slurm's short NodeName for an agent with a full name, or the reverse.
    const bool by_host = key == "node" && kept.empty();
    *entries = std::move(by_host ? of_host : kept);
  }
  return {};
}

Status Sort(const List& list, std::string key, Json* entries) {
  if (key.empty()) return {};
  const bool falling = key[0] == '-';
  if (falling) key.erase(0, 1);
  UCUDNN_RETURN_IF_ERROR(CheckMember(list, *entries, "--sort-by", key));
  const std::string member = MemberNamed(list, key);
  std::stable_sort(entries->begin(), entries->end(),
                   [&](const Json& a, const Json& b) {
                     const Json& first = Member(falling ? b : a, member);
                     const Json& second = Member(falling ? a : b, member);
                     return first < second;
                   });
  return {};
}

std::string TableText(const List& list, const ListOptions& options,
                      const Json& entries) {
  const bool wide = options.output == "wide";
  std::vector<const Column*> columns;
  std::vector<std::string> header;
  for (const Column& column : list.columns) {
    if (column.wide && !wide) continue;
    columns.push_back(&column);
    header.push_back(column.header);
  }
  Table table(header);
  for (const Json& entry : entries) {
    std::vector<std::string> row;
    for (const Column* column : columns) {
      row.push_back(wide && column->wide_text ? column->wide_text(entry)
                                              : column->text(entry));
    }
    table.AddRow(std::move(row));
  }
  return table.Text(
      {.headers = options.headers, .width = wide ? 0 : TerminalWidth()});
}

// The entries as the options want them.
Result<std::string> Render(const List& list, const ListOptions& options,
                           Json entries) {
  UCUDNN_RETURN_IF_ERROR(Filter(list, options.filters, &entries));
  UCUDNN_RETURN_IF_ERROR(Sort(list, options.sort_by, &entries));
  std::string text;
  if (options.output == "json") return JsonText(entries);
  if (options.output == "yaml") return YamlText(entries);
  if (options.output == "name") {
    for (const Json& entry : entries) {
      text += OneLine(PlainText(Member(entry, list.id))) + "\n";
    }
    return text;
  }
  if (options.output.starts_with(kPathPrefix)) {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto steps,
        ParseJsonPath(options.output.substr(sizeof(kPathPrefix) - 1)));
    for (const Json& value : Select(entries, steps)) {
      text += OneLine(PlainText(value)) + "\n";
    }
    return text;
  }
  return TableText(list, options, entries);
}

Status Show(const Server& server, const List& list,
            const ListOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  std::optional<std::string> last;
  while (true) {
    Result<Json> entries = list.fetch(*connection, options.page);
    if (!entries) return tl::unexpected<Error>(std::move(entries).error());
    UCUDNN_ASSIGN_OR_RETURN(std::string text,
                            Render(list, options, *std::move(entries)));
    if (last != text) {
      const bool clear = options.watch && terminal;
      const std::string between = clear ? "\033[H\033[2J" : last ? "\n" : "";
      UCUDNN_RETURN_IF_ERROR(WriteText("", between + text));
      last = std::move(text);
    }
    if (!options.watch) {
      // Only a header could also be an error that was missed.
      if (last == TableText(list, options, Json::array())) {
        std::fputs("none found\n", stderr);
      }
      return {};
    }
    Pause(connection->stop(), kWatchInterval);
    if (connection->stop().stop_requested()) {
      return Fail(Code::kCancelled, "stopped watching");
    }
  }
}

std::string CheckOutput(const std::string& text) {
  if (text.starts_with(kPathPrefix)) {
    const auto steps = ParseJsonPath(text.substr(sizeof(kPathPrefix) - 1));
    return steps ? "" : steps.error().message;
  }
  for (const char* known : {"table", "wide", "json", "yaml", "name"}) {
    if (text == known) return "";
  }
  return fmt::format(
      "'{}' is given; table, wide, json, yaml, name and jsonpath=EXPRESSION "
      "are accepted",
      Excerpt(text));
}

}  // namespace

const Json& Member(const Json& entry, const std::string& path) {
  static const Json kNull;
  const Json* at = &entry;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(name)) return kNull;
    at = &(*at)[name];
    begin = end + 1;
  }
  return *at;
}

Column Plain(std::string header, std::string member) {
  auto text = [member](const Json& entry) {
    return Shown(Member(entry, member));
  };
  return {std::move(header), std::move(member), std::move(text)};
}

Column Age(std::string header, std::string member) {
  auto text = [member](const Json& entry) {
    const Json& time = Member(entry, member);
    return time.is_number() ? Ago(time.get<std::int64_t>()) : "-";
  };
  return {std::move(header), std::move(member), std::move(text)};
}

Column Duration(std::string header, std::string member) {
  auto text = [member](const Json& entry) {
    const Json& us = Member(entry, member);
    if (!us.is_number() || us.get<double>() <= 0) return std::string("-");
    return HumanTime(Nanoseconds(std::llround(us.get<double>() * 1000)));
  };
  return {std::move(header), std::move(member), std::move(text)};
}

Column Planned() {
  auto text = [](const Json& entry) {
    const Json& step = Member(entry, "request.step");
    if (step.is_string() && step != "")
      return "step " + step.get<std::string>();
    const Json& network = Member(entry, "request.network");
    return network.is_string() ? network.get<std::string>() : "-";
  };
  return {"NETWORK", "request.network", std::move(text)};
}

Column Count(std::string header, std::string member) {
  auto text = [member](const Json& entry) {
    return std::to_string(Member(entry, member).size());
  };
  return {std::move(header), std::move(member), std::move(text)};
}

Column Kind(std::string header, std::string member) {
  Column column = Plain(std::move(header), member);
  column.wide_text = std::move(column.text);
  column.text = [member = std::move(member)](const Json& entry) {
    const Json& kind = Member(entry, member);
    return kind.is_string() ? ShortKind(kind.get<std::string>()) : "-";
  };
  return column;
}

Column Wide(Column column) {
  column.wide = true;
  return column;
}

void AddList(CLI::App* command, const Server& server, List list,
             Chosen* chosen) {
  const auto options = std::make_shared<ListOptions>();
  command
      ->add_option("-o,--output", options->output,
                   "table, wide, json, yaml, name or jsonpath=EXPRESSION")
      ->check(CLI::Validator(CheckOutput, ""))
      ->option_text("FORMAT");
  command->add_flag("!--no-headers", options->headers,
                    "Leave out the table's first line");
  command->add_flag("-w,--watch", options->watch,
                    "Show the list again whenever it changes, until Ctrl-C");
  AddTextOption(command, "--sort-by", "KEY", &options->sort_by,
                "Sort by this column, or member of -o json such as "
                "request.batch; --sort-by=-KEY sorts falling");
  command
      ->add_option("--filter", options->filters,
                   "Only entries whose column or member is this; repeat to "
                   "combine")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE");
  if (!list.states.empty()) {
    command
        ->add_option_function<std::string>(
            "--state",
            [options](const std::string& state) {
              options->filters.push_back("state=" + state);
            },
            fmt::format("Only these: {}", fmt::join(list.states, ", ")))
        ->check(CLI::IsMember(list.states))
        ->option_text("STATE");
  }
  if (list.paged) {
    command
        ->add_option_function<int>(
            "--limit", [options](int n) { options->page.set_limit(n); },
            "Only the first N entries; sorted and filtered afterwards")
        ->check(CLI::Range(1, 1'000'000))
        ->option_text("N");
    command
        ->add_option_function<std::string>(
            "--after",
            [options](const std::string& id) { options->page.set_after(id); },
            "Only entries behind this one: a whole id, or a network's name")
        ->option_text("ID");
  }
  command->callback([&server, command, options, list = std::move(list),
                     chosen] {
    if (!command->get_subcommands().empty()) return;
    *chosen = [&server, options, list] { return Show(server, list, *options); };
  });
}

}  // namespace ucudnn::ctl
