#include "base/training/task_times.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/files/csv.h"
#include "base/median.h"
#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::array<std::string_view, 6> kOps = {
    "forward",         "loss",          "backward",
    "backward_filter", "backward_data", "update"};

Result<std::string_view> ParseOp(std::string_view field) {
  if (std::find(kOps.begin(), kOps.end(), field) != kOps.end()) return field;
  return Fail(Code::kInvalidArgument,
              "'{}' is not a task; forward, loss, backward, backward_filter, "
              "backward_data or update is accepted",
              Excerpt(field));
}

}  // namespace

Result<std::vector<TaskTime>> ParseTaskTimesCsv(std::string_view text,
                                                const ProfileFilter& filter,
                                                std::string_view source) {
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, source));
  struct Selected {
    std::string_view column;
    const std::string& wanted;
    CsvColumn place;
    std::optional<std::string> found;
  };
  std::array<Selected, 4> selected = {
      Selected{"device", filter.device, 0, {}},
      Selected{"network", filter.network, 0, {}},
      Selected{"precision", filter.precision, 0, {}},
      Selected{"layout", filter.layout, 0, {}}};
  for (Selected& s : selected) {
    UCUDNN_ASSIGN_OR_RETURN(s.place, csv.Require(s.column));
  }
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn layer, csv.Require("layer"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn op, csv.Require("op"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn batch, csv.Require("batch"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn algorithm, csv.Require("algorithm"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn time, csv.Require("time_us"));
  using Key = std::tuple<std::string, std::string, std::int64_t>;
  std::map<Key, std::vector<Nanoseconds>> times;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    if (csv.Field(algorithm) != kNoAlgorithm) continue;
    bool wanted = true;
    for (Selected& s : selected) {
      const std::string_view field = csv.Field(s.place);
      if (!s.wanted.empty()) {
        wanted = wanted && field == s.wanted;
      } else if (!s.found) {
        s.found = field;
      } else if (*s.found != field) {
        return csv.At(s.place,
                      Error{Code::kInvalidArgument,
                            fmt::format("'{}' and '{}' are measured; "
                                        "choose one",
                                        Excerpt(*s.found), Excerpt(field))});
      }
    }
    if (!wanted) continue;
    UCUDNN_ASSIGN_OR_RETURN(const std::string_view node,
                            csv.Read(layer, ParseNonEmpty));
    UCUDNN_ASSIGN_OR_RETURN(const std::string_view task, csv.Read(op, ParseOp));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t images,
                            csv.ReadInteger(batch, 1, kMaxBatchSize.count()));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds value,
                            csv.Read(time, ParseMicroseconds));
    times[{std::string(node), std::string(task), images}].push_back(value);
  }
  std::vector<TaskTime> result;
  for (auto& [key, repeats] : times) {
    std::sort(repeats.begin(), repeats.end());
    result.push_back({std::get<0>(key), std::get<1>(key),
                      BatchSize(std::get<2>(key)),
                      MedianAndSpreadOf(repeats).median});
  }
  return result;
}

}  // namespace ucudnn
