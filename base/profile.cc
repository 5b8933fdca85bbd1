#include "base/profile.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/files/csv.h"
#include "base/files/file.h"
#include "base/median.h"
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

// A row; a gigabyte of CSV has ten million of them.
struct Measurement {
  std::uint32_t kernel;
  std::uint32_t algorithm;
  BatchSize batch;
  Bytes workspace;
  Nanoseconds time;
};

// The columns that make up a kernel's identity, in KernelId's order, then
// those of an algorithm.
constexpr std::array<std::string_view, 6> kKernelColumns = {
    "device", "network", "layer", "op", "precision", "layout"};
constexpr std::array<std::string_view, 3> kAlgorithmColumns = {
    "algorithm", "math", "precision"};

// Reads the rows of a profile, parsing each kernel and algorithm once.
class ProfileReader {
 public:
  explicit ProfileReader(CsvReader csv) : csv_(std::move(csv)) {}

  Status ReadHeader() {
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
    UCUDNN_ASSIGN_OR_RETURN(time_, csv_.Require("time_us"));
    return {};
  }

  // False at the end.
  Result<bool> ReadRow() {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, csv_.Next());
    if (!more) return false;
    ++read_;
    if (csv_.Field(algorithm_columns_[0]) == kNoAlgorithm) return true;
    const auto [kernel, new_kernel] = kernel_numbers_.Add(Key(kernel_columns_));
    if (new_kernel) UCUDNN_RETURN_IF_ERROR(ReadKernel());
    const auto [algorithm, new_algorithm] =
        algorithm_numbers_.Add(Key(algorithm_columns_));
    if (new_algorithm) UCUDNN_RETURN_IF_ERROR(ReadAlgorithm());
    UCUDNN_ASSIGN_OR_RETURN(
        const std::int64_t batch, csv_.Read(batch_, [](std::string_view field) {
          return ParseInteger(field, 1, kMaxBatchSize.count());
        }));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t workspace,
                            csv_.Read(workspace_, [](std::string_view field) {
                              return ParseInteger(field, 0,
                                                  std::int64_t{1} << 62);
                            }));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                            csv_.Read(time_, ParseMicroseconds));
    rows_.push_back(
        {kernel, algorithm, BatchSize(batch), Bytes(workspace), time});
    return true;
  }

  Profile Finish();

  // Rows, also of tasks that are no convolutions.
  std::int64_t read() const { return read_; }

 private:
  // The fields together; fields hold no control characters.
  template <std::size_t n>
  std::string_view Key(const std::array<CsvColumn, n>& columns) {
    key_.clear();
    for (const CsvColumn column : columns) {
      key_ += csv_.Field(column);
      key_ += '\n';
    }
    return key_;
  }

  Status ReadKernel() {
    KernelId id;
    const auto name = [&](std::size_t i, std::string* value) -> Status {
      UCUDNN_ASSIGN_OR_RETURN(*value,
                              csv_.Read(kernel_columns_[i], ParseNonEmpty));
      return {};
    };
    UCUDNN_RETURN_IF_ERROR(name(0, &id.device));
    UCUDNN_RETURN_IF_ERROR(name(1, &id.network));
    UCUDNN_RETURN_IF_ERROR(name(2, &id.layer));
    UCUDNN_ASSIGN_OR_RETURN(id.op, csv_.Read(kernel_columns_[3], ParseConvOp));
    UCUDNN_ASSIGN_OR_RETURN(id.precision,
                            csv_.Read(kernel_columns_[4], ParsePrecision));
    UCUDNN_ASSIGN_OR_RETURN(id.layout,
                            csv_.Read(kernel_columns_[5], ParseLayout));
    profile_.kernels.push_back({std::move(id), {}});
    return {};
  }

  Status ReadAlgorithm() {
    Algorithm algorithm;
    UCUDNN_ASSIGN_OR_RETURN(algorithm.name,
                            csv_.Read(algorithm_columns_[0], ParseNonEmpty));
    algorithm.math = csv_.Field(algorithm_columns_[1]);
    UCUDNN_ASSIGN_OR_RETURN(algorithm.precision,
                            csv_.Read(algorithm_columns_[2], ParsePrecision));
    algorithms_.push_back(std::move(algorithm));
    return {};
  }

  CsvReader csv_;
  std::int64_t read_ = 0;
  std::array<CsvColumn, kKernelColumns.size()> kernel_columns_{};
  std::array<CsvColumn, kAlgorithmColumns.size()> algorithm_columns_{};
  CsvColumn batch_ = 0;
  CsvColumn workspace_ = 0;
  CsvColumn time_ = 0;
  std::string key_;
  Interner kernel_numbers_;
  Interner algorithm_numbers_;
  std::vector<Algorithm> algorithms_;
  std::vector<Measurement> rows_;
  Profile profile_;  // its kernels, without points until Finish
};

Profile ProfileReader::Finish() {
  // Algorithms by rank, so that rows are compared by numbers alone.
  std::vector<std::uint32_t> order(algorithms_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return algorithms_[a] < algorithms_[b];
  });
  std::vector<std::uint32_t> rank(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;

  const auto point = [&](const Measurement& row) {
    return std::tuple(row.kernel, row.batch, rank[row.algorithm],
                      row.workspace);
  };
  std::sort(rows_.begin(), rows_.end(),
            [&](const Measurement& a, const Measurement& b) {
              return std::tuple_cat(point(a), std::tuple(a.time)) <
                     std::tuple_cat(point(b), std::tuple(b.time));
            });
  std::vector<Nanoseconds> times;
  for (auto row = rows_.begin(); row != rows_.end();) {
    times.clear();
    const Measurement first = *row;
    for (; row != rows_.end() && point(*row) == point(first); ++row) {
      times.push_back(row->time);
    }
    const MedianAndSpread summary = MedianAndSpreadOf(times);
    profile_.kernels[first.kernel].points.push_back(
        {first.batch, algorithms_[first.algorithm], first.workspace,
         summary.median, summary.spread, static_cast<int>(times.size())});
  }
  return std::move(profile_);
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
  if (reader.read() == 0) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no row; one or more measurements are expected",
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
      "workspace_bytes,time_us\n";
  for (const KernelProfile& kernel : profile.kernels) {
    for (const MeasuredPoint& point : kernel.points) {
      AppendCsvField(&csv, kernel.id.device);
      csv += ',';
      AppendCsvField(&csv, kernel.id.network);
      csv += ',';
      AppendCsvField(&csv, kernel.id.layer);
      fmt::format_to(std::back_inserter(csv), ",{},{},{},{},",
                     Name(kernel.id.op), Name(point.algorithm.precision),
                     Name(kernel.id.layout), point.batch.count());
      AppendCsvField(&csv, point.algorithm.name);
      csv += ',';
      AppendCsvField(&csv, point.algorithm.math);
      fmt::format_to(std::back_inserter(csv), ",{},{}\n",
                     point.workspace.count(), FormatMicroseconds(point.time));
    }
  }
  return csv;
}

}  // namespace ucudnn
