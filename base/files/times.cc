#include "base/files/times.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/files/csv.h"
#include "base/files/file.h"
#include "base/median.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using Models = std::set<std::string, std::less<>>;

// Checks, before any row is parsed, that the rows of `model` can be selected.
Status CheckModel(std::string_view text, std::string_view model,
                  std::string_view source) {
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, source));
  UCUDNN_ASSIGN_OR_RETURN(const auto column, csv.Find("model"));
  if (!column) {
    if (model.empty()) return {};
    return Fail(Code::kInvalidArgument,
                "{}: model '{}' is asked for, but there is no column 'model'",
                source, Excerpt(model));
  }
  Models models;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    const std::string_view field = csv.Field(*column);
    if (models.find(field) == models.end()) models.emplace(field);
  }
  if (model.empty() && models.size() > 1) {
    return Fail(Code::kInvalidArgument,
                "{}: it has times of several models; choose one of {}", source,
                FirstNames({models.begin(), models.end()}));
  }
  if (!model.empty() && !models.empty() && models.count(model) == 0) {
    return Fail(Code::kNotFound,
                "{}: it has no times of model '{}', only of {}", source,
                Excerpt(model), FirstNames({models.begin(), models.end()}));
  }
  return {};
}

struct Measurement {
  std::size_t gpu;
  BatchSize batch;
  Nanoseconds time;

  friend bool operator<(const Measurement& a, const Measurement& b) {
    return std::tie(a.gpu, a.batch, a.time) < std::tie(b.gpu, b.batch, b.time);
  }
};

// Adds the median for each GPU and batch to `gpus`.
void Summarise(std::vector<Measurement> rows, std::vector<GpuTimes>* gpus) {
  std::sort(rows.begin(), rows.end());
  std::vector<Nanoseconds> times;
  for (auto row = rows.begin(); row != rows.end();) {
    times.clear();
    const Measurement first = *row;
    while (row != rows.end() && row->gpu == first.gpu &&
           row->batch == first.batch) {
      times.push_back((row++)->time);
    }
    (*gpus)[first.gpu].times.push_back(
        {first.batch, MedianAndSpreadOf(times).median});
  }
}

}  // namespace

Result<std::vector<GpuTimes>> ParseTimesCsv(std::string_view text,
                                            std::string_view model,
                                            std::string_view source) {
  UCUDNN_RETURN_IF_ERROR(CheckModel(text, model, source));
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, source));
  UCUDNN_ASSIGN_OR_RETURN(const auto model_column, csv.Find("model"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn gpu_column, csv.Require("gpu"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn batch_column, csv.Require("batch"));
  UCUDNN_ASSIGN_OR_RETURN(const auto us_column, csv.Find("time_us"));
  UCUDNN_ASSIGN_OR_RETURN(const auto ms_column, csv.Find("ms_per_iteration"));
  if (!us_column && !ms_column) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no column 'time_us' or 'ms_per_iteration'; one "
                "of them is expected",
                source);
  }

  std::vector<GpuTimes> gpus;
  std::map<std::string, std::size_t, std::less<>> places;
  std::vector<Measurement> rows;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    if (!model.empty() && csv.Field(*model_column) != model) continue;
    UCUDNN_ASSIGN_OR_RETURN(const std::string_view gpu,
                            csv.Read(gpu_column, ParseNonEmpty));
    UCUDNN_ASSIGN_OR_RETURN(
        const std::int64_t batch,
        csv.ReadInteger(batch_column, 1, kMaxBatchSize.count()));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                            us_column
                                ? csv.Read(*us_column, ParseMicroseconds)
                                : csv.Read(*ms_column, ParseMilliseconds));
    auto place = places.find(gpu);
    if (place == places.end()) {
      place = places.emplace(gpu, gpus.size()).first;
      gpus.push_back({std::string(gpu), {}});
    }
    rows.push_back({place->second, BatchSize(batch), time});
  }
  if (rows.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no row; one or more times are expected", source);
  }
  Summarise(std::move(rows), &gpus);
  return gpus;
}

Result<std::vector<GpuTimes>> ReadTimesFile(const std::string& path,
                                            std::string_view model,
                                            Bytes max_size) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_size));
  return ParseTimesCsv(text, model, Excerpt(path, 4096));
}

std::string ToCsv(const std::vector<GpuTimes>& gpus) {
  std::string csv = "gpu,batch,time_us\n";
  for (const GpuTimes& gpu : gpus) {
    for (const BatchTime& point : gpu.times) {
      AppendCsvField(&csv, gpu.gpu);
      csv += fmt::format(",{},{}\n", point.batch.count(),
                         FormatMicroseconds(point.time));
    }
  }
  return csv;
}

}  // namespace ucudnn
