#include "client/cli/profile_csv.h"

#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/conv_problem.h"
#include "base/files/csv.h"
#include "base/units.h"

namespace ucudnn::ctl {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 62;

Result<std::int64_t> ParseCount(std::string_view text) {
  return ParseInteger(text, 0, kMost);
}

Result<std::int64_t> ParseTime(std::string_view text) {
  return ParseMicroseconds(text).map(
      [](Nanoseconds time) { return std::int64_t{time.count()}; });
}

std::string Us(std::int64_t ns) { return FormatMicroseconds(Nanoseconds(ns)); }

// A column that may be missing, and its field that may be empty.
class Optional {
 public:
  static Result<Optional> Find(const CsvReader& csv, std::string_view name) {
    UCUDNN_ASSIGN_OR_RETURN(const auto column, csv.Find(name));
    return Optional(column);
  }
  bool given(const CsvReader& csv) const {
    return column_ && !csv.Field(*column_).empty();
  }
  std::string Text(const CsvReader& csv) const {
    return column_ ? std::string(csv.Field(*column_)) : std::string();
  }
  Result<std::int64_t> Number(
      const CsvReader& csv,
      Result<std::int64_t> (*parse)(std::string_view)) const {
    if (!given(csv)) return 0;
    return csv.Read(*column_, parse);
  }

 private:
  explicit Optional(std::optional<CsvColumn> column) : column_(column) {}
  std::optional<CsvColumn> column_;
};

}  // namespace

std::string ProfilesToCsv(const std::vector<v1::Profile>& profiles) {
  std::string csv =
      "device,network,layer,op,precision,layout,batch,algorithm,math,"
      "workspace_bytes,time_us,problem,spread_us,repeats,min_us,p90_us,"
      "enqueue_us,measured_on,driver,measured_ms,sm_clock_mhz,memory_clock_mhz,"
      "throttle,complete_bytes,complete_driver\n";
  const auto out = std::back_inserter(csv);
  for (const v1::Profile& profile : profiles) {
    for (const v1::ProblemProfile& of_problem : profile.problems()) {
      std::map<std::int64_t, const v1::CompleteBatch*> complete;
      for (const v1::CompleteBatch& batch : of_problem.complete()) {
        complete[batch.batch()] = &batch;
      }
      const auto problem = ParseConvProblem(of_problem.problem());
      for (const v1::Measurement& m : of_problem.measurements()) {
        AppendCsvField(&csv, profile.id());
        fmt::format_to(out, ",measured,{},{},{},{},{},", of_problem.problem(),
                       problem ? Name(problem->op) : "", m.precision(),
                       problem ? Name(problem->layout) : "", m.batch());
        AppendCsvField(&csv, m.algorithm());
        csv += ',';
        AppendCsvField(&csv, m.math());
        fmt::format_to(out, ",{},{},{},{},{},{},{},{},", m.workspace_bytes(),
                       Us(m.time_ns()), of_problem.problem(), Us(m.spread_ns()),
                       m.repeats(), Us(m.min_ns()), Us(m.p90_ns()),
                       Us(m.enqueue_ns()));
        AppendCsvField(&csv, m.device());
        csv += ',';
        AppendCsvField(&csv, m.driver());
        fmt::format_to(out, ",{},{},{},", m.measured_ms(), m.clocks().sm_mhz(),
                       m.clocks().memory_mhz());
        AppendCsvField(&csv, m.clocks().throttle());
        const auto whole = complete.find(m.batch());
        if (whole == complete.end()) {
          csv += ",,\n";
          continue;
        }
        fmt::format_to(out, ",{},", whole->second->max_workspace_bytes());
        AppendCsvField(&csv, whole->second->driver());
        csv += '\n';
      }
    }
  }
  return csv;
}

Result<std::vector<v1::Profile>> ProfilesFromCsv(std::string_view text,
                                                 std::string_view source) {
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, source));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn device, csv.Require("device"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn problem, csv.Require("problem"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn precision, csv.Require("precision"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn batch, csv.Require("batch"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn algorithm, csv.Require("algorithm"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn math, csv.Require("math"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn workspace,
                          csv.Require("workspace_bytes"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn time, csv.Require("time_us"));
  std::map<std::string, std::optional<Optional>> more;
  for (const char* name :
       {"spread_us", "repeats", "min_us", "p90_us", "enqueue_us", "measured_on",
        "driver", "measured_ms", "sm_clock_mhz", "memory_clock_mhz", "throttle",
        "complete_bytes", "complete_driver"}) {
    UCUDNN_ASSIGN_OR_RETURN(more[name], Optional::Find(csv, name));
  }
  std::vector<v1::Profile> profiles;
  std::map<std::string, std::size_t> kinds;
  std::map<std::pair<std::size_t, std::string>, int> problems;
  std::map<std::pair<v1::ProblemProfile*, std::int64_t>, bool> complete;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, csv.Next());
    if (!row) break;
    UCUDNN_ASSIGN_OR_RETURN(const auto kind, csv.Read(device, ParseNonEmpty));
    const auto [at, new_kind] =
        kinds.try_emplace(std::string(kind), profiles.size());
    if (new_kind) profiles.emplace_back().set_id(std::string(kind));
    v1::Profile& profile = profiles[at->second];
    UCUDNN_ASSIGN_OR_RETURN(const ConvProblem parsed,
                            csv.Read(problem, ParseConvProblem));
    const auto [index, new_problem] = problems.try_emplace(
        {at->second, ToString(parsed)}, profile.problems_size());
    if (new_problem) profile.add_problems()->set_problem(ToString(parsed));
    v1::ProblemProfile& of_problem = *profile.mutable_problems(index->second);

    v1::Measurement& m = *of_problem.add_measurements();
    UCUDNN_ASSIGN_OR_RETURN(const Precision p,
                            csv.Read(precision, ParsePrecision));
    m.set_precision(std::string(Name(p)));
    UCUDNN_ASSIGN_OR_RETURN(
        const std::int64_t images, csv.Read(batch, [](std::string_view field) {
          return ParseInteger(field, 1, kMaxBatchSize.count());
        }));
    m.set_batch(images);
    UCUDNN_ASSIGN_OR_RETURN(const auto name,
                            csv.Read(algorithm, ParseNonEmpty));
    m.set_algorithm(std::string(name));
    m.set_math(std::string(csv.Field(math)));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t bytes,
                            csv.Read(workspace, ParseCount));
    m.set_workspace_bytes(bytes);
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t ns, csv.Read(time, ParseTime));
    m.set_time_ns(ns);
    const auto number = [&](const char* column,
                            Result<std::int64_t> (*parse)(std::string_view)) {
      return more.at(column)->Number(csv, parse);
    };
    UCUDNN_ASSIGN_OR_RETURN(const auto spread, number("spread_us", ParseTime));
    UCUDNN_ASSIGN_OR_RETURN(const auto min, number("min_us", ParseTime));
    UCUDNN_ASSIGN_OR_RETURN(const auto p90, number("p90_us", ParseTime));
    UCUDNN_ASSIGN_OR_RETURN(const auto enqueue,
                            number("enqueue_us", ParseTime));
    UCUDNN_ASSIGN_OR_RETURN(const auto repeats,
                            number("repeats", [](std::string_view field) {
                              return ParseInteger(field, 1, 1 << 30);
                            }));
    UCUDNN_ASSIGN_OR_RETURN(const auto when, number("measured_ms", ParseCount));
    UCUDNN_ASSIGN_OR_RETURN(const auto sm, number("sm_clock_mhz", ParseCount));
    UCUDNN_ASSIGN_OR_RETURN(const auto memory,
                            number("memory_clock_mhz", ParseCount));
    m.set_spread_ns(spread);
    m.set_min_ns(min);
    m.set_p90_ns(p90);
    m.set_enqueue_ns(enqueue);
    m.set_repeats(
        static_cast<std::int32_t>(std::max<std::int64_t>(repeats, 1)));
    m.set_measured_ms(when);
    m.set_device(more.at("measured_on")->Text(csv));
    m.set_driver(more.at("driver")->Text(csv));
    m.mutable_clocks()->set_sm_mhz(sm);
    m.mutable_clocks()->set_memory_mhz(memory);
    m.mutable_clocks()->set_throttle(more.at("throttle")->Text(csv));
    if (!more.at("complete_bytes")->given(csv)) continue;
    UCUDNN_ASSIGN_OR_RETURN(const auto most,
                            number("complete_bytes", ParseCount));
    if (!complete.emplace(std::pair(&of_problem, images), true).second)
      continue;
    v1::CompleteBatch& whole = *of_problem.add_complete();
    whole.set_batch(images);
    whole.set_max_workspace_bytes(most);
    whole.set_driver(more.at("complete_driver")->Text(csv));
  }
  if (profiles.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no row; one or more measurements are expected",
                source);
  }
  return profiles;
}

}  // namespace ucudnn::ctl
