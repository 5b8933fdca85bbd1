// The profile as CSV.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/accuracy.h"
#include "base/files/csv.h"
#include "base/files/file.h"
#include "base/median.h"
#include "base/other_tasks.h"
#include "base/profile.h"
#include "base/text.h"

namespace ucudnn {
namespace {

// Numbers distinct texts in the order in which they appear.
class Interner {
 public:
  // The text's number, and whether it is new.
  std::pair<std::uint32_t, bool> Add(std::string_view text) {
    const auto known = numbers_.find(text);
    if (known != numbers_.end()) return {known->second, false};
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    numbers_.emplace(text, number);
    return {number, true};
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>>
      numbers_;
};

// The columns that name a kernel besides its problem, in KernelId's order, then
// those of an algorithm.
constexpr std::array<std::string_view, 6> kKernelColumns = {
    "device", "network", "layer", "op", "precision", "layout"};
constexpr std::array<std::string_view, 3> kAlgorithmColumns = {
    "algorithm", "math", "precision"};
// A number's column: "time_us" of "time_ns", "error" of "error_ppt".
std::string ColumnOf(const PointNumber& number) {
  std::string name(number.name);
  if (number.is_error()) name.resize(name.size() - 4);
  if (number.is_time()) name.replace(name.size() - 2, 2, "us");
  return name;
}

// A column of PointOrigin, as a text or as a number.
struct OriginColumn {
  std::string_view name;
  std::string& (*text)(PointOrigin& origin) = nullptr;
  std::int64_t& (*number)(PointOrigin& origin) = nullptr;
};

constexpr std::array kOriginColumns = {
    OriginColumn{
        .name = "measured_on",
        .text = [](PointOrigin& o) -> std::string& { return o.device; }},
    OriginColumn{
        .name = "driver",
        .text = [](PointOrigin& o) -> std::string& { return o.driver; }},
    OriginColumn{.name = "measured_ms",
                 .number = [](PointOrigin& o) -> std::int64_t& {
                   return o.measured_ms;
                 }},
    OriginColumn{.name = "sm_clock_mhz",
                 .number = [](PointOrigin& o) -> std::int64_t& {
                   return o.clocks.sm_mhz;
                 }},
    OriginColumn{.name = "memory_clock_mhz",
                 .number = [](PointOrigin& o) -> std::int64_t& {
                   return o.clocks.memory_mhz;
                 }},
    OriginColumn{.name = "throttle",
                 .text = [](PointOrigin& o) -> std::string& {
                   return o.clocks.throttle;
                 }}};

// The task's name of its node and op, and the other way around: the loss has
// no node, and is its own op.
std::string TaskNameOf(std::string_view node, std::string_view op) {
  return node == op ? std::string(node) : fmt::format("{}.{}", node, op);
}
std::pair<std::string_view, std::string_view> NodeAndOpOf(
    std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return {name, name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// What a row tells in optional columns; `point` has its numbers alone.
struct Told {
  MeasuredPoint point;
  PointOrigin origin;
};

// A row; a gigabyte of CSV has ten million of them.
struct Row {
  std::uint32_t kernel;
  std::uint32_t algorithm;
  BatchSize batch;
  Bytes workspace;
  Nanoseconds time;
  std::uint32_t told;  // where its Told is, if the file has optional columns
};

// Reads the rows of a profile, parsing each kernel and algorithm once.
class ProfileReader {
 public:
  explicit ProfileReader(CsvReader csv) : csv_(std::move(csv)) {}

  Status ReadHeader();
  // False at the end.
  Result<bool> ReadRow();
  Profile Finish();

 private:
  // The fields together; fields hold no control characters.
  template <std::size_t n>
  std::string_view Key(const std::array<CsvColumn, n>& columns,
                       std::optional<CsvColumn> more = {}) {
    key_.clear();
    for (const CsvColumn column : columns) {
      key_ += csv_.Field(column);
      key_ += '\n';
    }
    if (more) key_ += csv_.Field(*more);
    return key_;
  }

  // Whether the row is of tasks other than convolutions.
  bool IsTask() const {
    return csv_.Field(algorithm_columns_[0]) == kNoAlgorithm;
  }
  Status ReadKernel();
  Status ReadAlgorithm();
  // The number of the row's algorithm, or of its task's name.
  Result<std::uint32_t> AlgorithmOfRow();
  Status ReadNumbers(MeasuredPoint* point);
  Status ReadOrigin(PointOrigin* origin);
  Status ReadCompleteness(BatchSize batch, KernelProfile* kernel);
  // The point of the rows from `first` to `last`, sorted by time.
  MeasuredPoint PointOf(const Row* first, const Row* last,
                        PointOrigin* origin) const;

  CsvReader csv_;
  std::array<CsvColumn, kKernelColumns.size()> kernel_columns_{};
  std::array<CsvColumn, kAlgorithmColumns.size()> algorithm_columns_{};
  CsvColumn batch_ = 0;
  CsvColumn workspace_ = 0;
  CsvColumn time_ = 0;
  std::optional<CsvColumn> problem_;
  std::vector<std::pair<PointNumber, CsvColumn>> numbers_;
  std::vector<std::pair<OriginColumn, CsvColumn>> origins_;
  std::optional<CsvColumn> complete_bytes_;
  std::optional<CsvColumn> complete_driver_;

  std::string key_;
  Interner kernel_keys_;
  std::vector<std::uint32_t> kernel_of_key_;
  std::map<std::pair<KernelId, std::optional<ConvProblem>>, std::uint32_t>
      kernel_numbers_;
  Interner algorithm_keys_;
  std::vector<Algorithm> algorithms_;
  std::vector<Row> rows_;
  std::vector<Told> told_;
  Profile profile_;  // its kernels, without points until Finish
};

Status ProfileReader::ReadHeader() {
  for (std::size_t i = 0; i < kKernelColumns.size(); ++i) {
    UCUDNN_ASSIGN_OR_RETURN(kernel_columns_[i],
                            csv_.Require(kKernelColumns[i]));
  }
  for (std::size_t i = 0; i < kAlgorithmColumns.size(); ++i) {
    UCUDNN_ASSIGN_OR_RETURN(algorithm_columns_[i],
                            csv_.Require(kAlgorithmColumns[i]));
  }
  UCUDNN_ASSIGN_OR_RETURN(batch_, csv_.Require("batch"));
  UCUDNN_ASSIGN_OR_RETURN(workspace_, csv_.Require("workspace_bytes"));
  const auto numbers = PointNumbers();
  UCUDNN_ASSIGN_OR_RETURN(time_, csv_.Require(ColumnOf(numbers[0])));
  for (const PointNumber& number : numbers.subspan(1)) {
    UCUDNN_ASSIGN_OR_RETURN(const auto column, csv_.Find(ColumnOf(number)));
    if (column) numbers_.emplace_back(number, *column);
  }
  for (const OriginColumn& origin : kOriginColumns) {
    UCUDNN_ASSIGN_OR_RETURN(const auto column, csv_.Find(origin.name));
    if (column) origins_.emplace_back(origin, *column);
  }
  UCUDNN_ASSIGN_OR_RETURN(problem_, csv_.Find("problem"));
  UCUDNN_ASSIGN_OR_RETURN(complete_bytes_, csv_.Find("complete_bytes"));
  UCUDNN_ASSIGN_OR_RETURN(complete_driver_, csv_.Find("complete_driver"));
  return {};
}

Result<bool> ProfileReader::ReadRow() {
  UCUDNN_ASSIGN_OR_RETURN(const bool more, csv_.Next());
  if (!more) return false;
  if (IsTask() && !(problem_ && IsOtherTasks(csv_.Field(*problem_)))) {
    return true;
  }
  const auto [key, new_key] = kernel_keys_.Add(Key(kernel_columns_, problem_));
  if (new_key) UCUDNN_RETURN_IF_ERROR(ReadKernel());
  const std::uint32_t kernel = kernel_of_key_[key];
  UCUDNN_ASSIGN_OR_RETURN(const std::uint32_t algorithm, AlgorithmOfRow());
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t batch,
                          csv_.ReadInteger(batch_, 1, kMaxBatchSize.count()));
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t workspace,
                          csv_.ReadInteger(workspace_, 0, kMaxCount));
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                          csv_.Read(time_, ParseMicroseconds));
  rows_.push_back({kernel, algorithm, BatchSize(batch), Bytes(workspace), time,
                   static_cast<std::uint32_t>(told_.size())});
  if (!numbers_.empty() || !origins_.empty()) {
    Told& told = told_.emplace_back();
    UCUDNN_RETURN_IF_ERROR(ReadNumbers(&told.point));
    UCUDNN_RETURN_IF_ERROR(ReadOrigin(&told.origin));
  }
  UCUDNN_RETURN_IF_ERROR(
      ReadCompleteness(BatchSize(batch), &profile_.kernels[kernel]));
  return true;
}

Status ProfileReader::ReadKernel() {
  KernelId id;
  const auto name = [&](std::size_t i, std::string* value) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(*value,
                            csv_.Read(kernel_columns_[i], ParseNonEmpty));
    return {};
  };
  UCUDNN_RETURN_IF_ERROR(name(0, &id.device));
  UCUDNN_RETURN_IF_ERROR(name(1, &id.network));
  UCUDNN_RETURN_IF_ERROR(name(2, &id.layer));
  if (IsTask()) {
    UCUDNN_RETURN_IF_ERROR(csv_.Read(*problem_, ParseOtherTasks));
    id.layer = csv_.Field(*problem_);
  } else {
    UCUDNN_ASSIGN_OR_RETURN(id.op, csv_.Read(kernel_columns_[3], ParseConvOp));
  }
  UCUDNN_ASSIGN_OR_RETURN(id.precision,
                          csv_.Read(kernel_columns_[4], ParsePrecision));
  UCUDNN_ASSIGN_OR_RETURN(id.layout,
                          csv_.Read(kernel_columns_[5], ParseLayout));
  std::optional<ConvProblem> problem;
  if (problem_ && !IsTask() && !csv_.Field(*problem_).empty()) {
    UCUDNN_ASSIGN_OR_RETURN(problem, csv_.Read(*problem_, ParseConvProblem));
    if (problem->layout != id.layout) {
      return csv_.At(*problem_,
                     {Code::kInvalidArgument,
                      fmt::format("the problem is in {}, but the row's layout "
                                  "is {}; they must agree",
                                  Name(problem->layout), Name(id.layout))});
    }
    id.precision = problem->precision;
  }
  const auto [known, is_new] = kernel_numbers_.try_emplace(
      {id, problem}, static_cast<std::uint32_t>(profile_.kernels.size()));
  kernel_of_key_.push_back(known->second);
  if (is_new) {
    profile_.kernels.push_back({.id = std::move(id), .points = {}});
    profile_.kernels.back().problem = problem;
  }
  return {};
}

Result<std::uint32_t> ProfileReader::AlgorithmOfRow() {
  // No algorithm is called NONE.
  const auto [number, is_new] = algorithm_keys_.Add(
      IsTask() ? Key(std::array{kernel_columns_[2], kernel_columns_[3],
                                algorithm_columns_[2]},
                     algorithm_columns_[0])
               : Key(algorithm_columns_));
  if (is_new) UCUDNN_RETURN_IF_ERROR(ReadAlgorithm());
  return number;
}

Status ProfileReader::ReadAlgorithm() {
  Algorithm algorithm;
  if (IsTask()) {
    algorithm.name = TaskNameOf(csv_.Field(kernel_columns_[2]),
                                csv_.Field(kernel_columns_[3]));
  } else {
    UCUDNN_ASSIGN_OR_RETURN(algorithm.name,
                            csv_.Read(algorithm_columns_[0], ParseNonEmpty));
  }
  algorithm.math = csv_.Field(algorithm_columns_[1]);
  UCUDNN_ASSIGN_OR_RETURN(algorithm.precision,
                          csv_.Read(algorithm_columns_[2], ParsePrecision));
  algorithms_.push_back(std::move(algorithm));
  return {};
}

Status ProfileReader::ReadNumbers(MeasuredPoint* point) {
  for (const auto& [number, column] : numbers_) {
    if (csv_.Field(column).empty()) continue;
    std::int64_t value = 0;
    if (number.is_time()) {
      UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                              csv_.Read(column, ParseMicroseconds));
      value = time.count();
    } else if (number.is_error()) {
      UCUDNN_ASSIGN_OR_RETURN(const double error,
                              csv_.Read(column, ParseError));
      value = PartsPerTrillion(error);
    } else {
      const std::int64_t max = number.max;
      UCUDNN_ASSIGN_OR_RETURN(value, csv_.ReadInteger(column, 0, max));
    }
    number.set(*point, value);
  }
  return {};
}

Status ProfileReader::ReadOrigin(PointOrigin* origin) {
  for (const auto& [told, column] : origins_) {
    if (told.text != nullptr) {
      told.text(*origin) = csv_.Field(column);
    } else if (!csv_.Field(column).empty()) {
      UCUDNN_ASSIGN_OR_RETURN(told.number(*origin),
                              csv_.ReadInteger(column, 0, kMaxCount));
    }
  }
  return {};
}

Status ProfileReader::ReadCompleteness(BatchSize batch, KernelProfile* kernel) {
  if (!complete_bytes_ || csv_.Field(*complete_bytes_).empty()) return {};
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t bytes,
                          csv_.ReadInteger(*complete_bytes_, 0, kMaxCount));
  Completeness& complete = kernel->complete[batch];
  if (Bytes(bytes) < complete.max_workspace) return {};
  complete.max_workspace = Bytes(bytes);
  if (complete_driver_) complete.driver = csv_.Field(*complete_driver_);
  return {};
}

MeasuredPoint ProfileReader::PointOf(const Row* first, const Row* last,
                                     PointOrigin* origin) const {
  const auto rows = last - first;
  const Row& middle = first[(rows - 1) / 2];
  MeasuredPoint point;
  if (!told_.empty()) {
    point = told_[middle.told].point;
    *origin = told_[middle.told].origin;
  }
  point.batch = middle.batch;
  point.algorithm = algorithms_[middle.algorithm];
  point.workspace = middle.workspace;
  point.time = middle.time;
  if (rows == 1) return point;
  // Each row is a repeat, or the median of several.
  std::vector<Nanoseconds> times;
  std::int64_t repeats = 0;
  for (const Row* row = first; row != last; ++row) {
    times.push_back(row->time);
    repeats += told_.empty() ? 1 : told_[row->told].point.repeats;
  }
  const MedianAndSpread of_rows = MedianAndSpreadOf(std::move(times));
  point.time = of_rows.median;
  point.spread = std::max(point.spread, of_rows.spread);
  point.repeats = static_cast<int>(
      std::min<std::int64_t>(repeats, std::numeric_limits<int>::max()));
  return point;
}

Profile ProfileReader::Finish() {
  // Algorithms by rank, so that rows are compared by numbers alone.
  std::vector<std::uint32_t> order(algorithms_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return algorithms_[a] < algorithms_[b];
  });
  std::vector<std::uint32_t> rank(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;

  const auto point = [&](const Row& row) {
    return std::tuple(row.kernel, row.batch, rank[row.algorithm],
                      row.workspace);
  };
  std::sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) {
    return std::tuple_cat(point(a), std::tuple(a.time, a.told)) <
           std::tuple_cat(point(b), std::tuple(b.time, b.told));
  });
  const Row* const end = rows_.data() + rows_.size();
  for (const Row* first = rows_.data(); first != end;) {
    const Row* last = first;
    while (last != end && point(*last) == point(*first)) ++last;
    KernelProfile& kernel = profile_.kernels[first->kernel];
    PointOrigin origin;
    kernel.points.push_back(PointOf(first, last, &origin));
    if (!origins_.empty()) kernel.origins.push_back(std::move(origin));
    first = last;
  }
  for (KernelProfile& kernel : profile_.kernels) {
    if (std::ranges::all_of(kernel.origins, [](const PointOrigin& origin) {
          return origin == PointOrigin();
        })) {
      kernel.origins.clear();
    }
  }
  const auto others =
      std::stable_partition(profile_.kernels.begin(), profile_.kernels.end(),
                            [](const KernelProfile& kernel) {
                              return !IsOtherTasks(kernel.id.layer);
                            });
  profile_.others.assign(std::make_move_iterator(others),
                         std::make_move_iterator(profile_.kernels.end()));
  profile_.kernels.erase(others, profile_.kernels.end());
  return std::move(profile_);
}

// An optional column as it is written; an empty text says nothing.
struct OptionalColumn {
  std::string name;
  std::function<std::string(const KernelProfile& kernel, std::size_t point)>
      text;
};

std::vector<OptionalColumn> OptionalColumns() {
  std::vector<OptionalColumn> columns;
  columns.push_back({"problem", [](const KernelProfile& kernel, std::size_t) {
                       return kernel.problem ? ToString(*kernel.problem)
                              : IsOtherTasks(kernel.id.layer) ? kernel.id.layer
                                                              : std::string();
                     }});
  for (const PointNumber& number : PointNumbers().subspan(1)) {
    columns.push_back(
        {ColumnOf(number),
         [number](const KernelProfile& kernel, std::size_t i) -> std::string {
           const std::int64_t value = number.get(kernel.points[i]);
           if (value == number.get(MeasuredPoint())) return {};
           if (number.is_error()) return fmt::format("{}", FromPpt(value));
           return number.is_time() ? FormatMicroseconds(Nanoseconds(value))
                                   : std::to_string(value);
         }});
  }
  for (const OriginColumn& column : kOriginColumns) {
    columns.push_back(
        {std::string(column.name),
         [column](const KernelProfile& kernel, std::size_t i) -> std::string {
           if (kernel.origins.empty()) return {};
           PointOrigin origin = kernel.origins[i];
           if (column.text != nullptr) return column.text(origin);
           const std::int64_t value = column.number(origin);
           return value == 0 ? std::string() : std::to_string(value);
         }});
  }
  const auto complete = [](const KernelProfile& kernel, std::size_t i) {
    const auto found = kernel.complete.find(kernel.points[i].batch);
    return found == kernel.complete.end() ? nullptr : &found->second;
  };
  columns.push_back({"complete_bytes",
                     [complete](const KernelProfile& kernel, std::size_t i) {
                       const Completeness* of_batch = complete(kernel, i);
                       return of_batch == nullptr
                                  ? std::string()
                                  : std::to_string(
                                        of_batch->max_workspace.count());
                     }});
  columns.push_back({"complete_driver",
                     [complete](const KernelProfile& kernel, std::size_t i) {
                       const Completeness* of_batch = complete(kernel, i);
                       return of_batch == nullptr ? std::string()
                                                  : of_batch->driver;
                     }});
  return columns;
}

// Whether the column says something of any point.
bool Speaks(const OptionalColumn& column, const Profile& profile) {
  for (const auto* kernels : {&profile.kernels, &profile.others}) {
    for (const KernelProfile& kernel : *kernels) {
      for (std::size_t i = 0; i < kernel.points.size(); ++i) {
        if (!column.text(kernel, i).empty()) return true;
      }
    }
  }
  return false;
}

void AppendRows(const KernelProfile& kernel,
                const std::vector<OptionalColumn>& more, std::string* csv) {
  const bool tasks = IsOtherTasks(kernel.id.layer);
  for (std::size_t i = 0; i < kernel.points.size(); ++i) {
    const MeasuredPoint& point = kernel.points[i];
    std::pair<std::string_view, std::string_view> of(kernel.id.layer,
                                                     Name(kernel.id.op));
    if (tasks) of = NodeAndOpOf(point.algorithm.name);
    for (const std::string_view field :
         {std::string_view(kernel.id.device),
          std::string_view(kernel.id.network), of.first, of.second}) {
      AppendCsvField(csv, field);
      *csv += ',';
    }
    fmt::format_to(std::back_inserter(*csv), "{},{},{},",
                   Name(point.algorithm.precision), Name(kernel.id.layout),
                   point.batch.count());
    AppendCsvField(csv, tasks ? kNoAlgorithm : point.algorithm.name);
    *csv += ',';
    AppendCsvField(csv, point.algorithm.math);
    fmt::format_to(std::back_inserter(*csv), ",{},{}", point.workspace.count(),
                   FormatMicroseconds(point.time));
    for (const OptionalColumn& column : more) {
      *csv += ',';
      AppendCsvField(csv, column.text(kernel, i));
    }
    *csv += '\n';
  }
}

}  // namespace

Result<Profile> ParseProfileCsv(std::string_view text,
                                std::string_view source) {
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, source));
  ProfileReader reader(std::move(csv));
  UCUDNN_RETURN_IF_ERROR(reader.ReadHeader());
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, reader.ReadRow());
    if (!more) break;
  }
  Profile profile = reader.Finish();
  if (profile.kernels.empty() && profile.others.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no row of a convolution; one or more "
                "measurements are expected",
                source);
  }
  return profile;
}

Result<Profile> ReadProfileFile(const std::string& path, Bytes max_size) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_size));
  return ParseProfileCsv(text, Excerpt(path, 4096));
}

std::string ToCsv(const Profile& profile) {
  std::string csv =
      "device,network,layer,op,precision,layout,batch,algorithm,math,"
      "workspace_bytes,time_us";
  std::vector<OptionalColumn> more = OptionalColumns();
  std::erase_if(more, [&](const OptionalColumn& column) {
    return !Speaks(column, profile);
  });
  for (const OptionalColumn& column : more) csv += "," + column.name;
  csv += '\n';
  for (const auto* kernels : {&profile.kernels, &profile.others}) {
    for (const KernelProfile& kernel : *kernels) AppendRows(kernel, more, &csv);
  }
  return csv;
}

}  // namespace ucudnn
