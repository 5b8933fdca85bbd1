#include "client/dropin/cache/measurements.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "base/files/file.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMaxFile = 64_MiB;
// Version 1 measured on the same operands repeatedly; version 2 lacked host
// times; version 3 did not replay short runs; in version 4 filter gradients had
// one time, of a run that adds; version 5 measured in a single stream; in
// version 6 errors stood apart from the points.
constexpr int kVersion = 7;

Result<std::int64_t> NotNegative(const Json& json, const char* name) {
  const Json& value = json.at(name);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
    return Fail(Code::kInvalidArgument, "{} is {}", name, value.dump());
  }
  return value.get<std::int64_t>();
}

// Throws nlohmann::json exceptions, which ParseMeasurements catches. Numbers
// that older files do not have, besides the time, were not noted.
Result<MeasuredPoint> PointFrom(const Json& json, BatchSize batch) {
  UCUDNN_ASSIGN_OR_RETURN(const auto bytes,
                          NotNegative(json, "workspace_bytes"));
  UCUDNN_ASSIGN_OR_RETURN(
      MeasuredPoint point,
      MakePoint(batch.count(), json.at("algorithm").get<std::string>(),
                json.at("math").get<std::string>(),
                json.at("precision").get<std::string>(), bytes));
  for (const PointNumber& number : PointNumbers()) {
    const std::string name(number.name);
    if (name != "time_ns" && !json.contains(name)) continue;
    UCUDNN_ASSIGN_OR_RETURN(const auto value, NotNegative(json, name.c_str()));
    UCUDNN_RETURN_IF_ERROR(SetNumber(number, value, &point));
  }
  return point;
}

Json ToJson(const MeasuredPoint& point) {
  Json row = {{"algorithm", point.algorithm.name},
              {"math", point.algorithm.math},
              {"precision", Name(point.algorithm.precision)},
              {"workspace_bytes", point.workspace.count()}};
  for (const PointNumber& number : PointNumbers()) {
    row[std::string(number.name)] = number.get(point);
  }
  return row;
}

Result<BatchSize> BatchFrom(const Json& json) {
  UCUDNN_ASSIGN_OR_RETURN(const auto count, NotNegative(json, "batch"));
  const BatchSize batch(count);
  if (batch < BatchSize(1) || batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument, "batch is {}", count);
  }
  return batch;
}

// Reads the adaptive policy's fields, which older files lack.
Status ReadAdaptive(const Json& json, ProblemMeasurements* into) {
  if (!json.contains("singles")) return {};
  for (const Json& row : json.at("singles")) {
    UCUDNN_ASSIGN_OR_RETURN(const BatchSize batch, BatchFrom(row));
    UCUDNN_ASSIGN_OR_RETURN(auto point, PointFrom(row, batch));
    into->singles.push_back(std::move(point));
  }
  for (const Json& row : json.at("looks")) {
    UCUDNN_ASSIGN_OR_RETURN(const BatchSize batch, BatchFrom(row));
    UCUDNN_ASSIGN_OR_RETURN(const auto limit, NotNegative(row, "limit_bytes"));
    into->queries.insert(
        {batch, Bytes(limit), row.at("each_below").get<bool>()});
  }
  return {};
}

Result<ProblemMeasurements> FromJson(const Json& json, const std::string& kind,
                                     const ConvProblem& problem) {
  if (json.at("version") != kVersion || json.at("kind") != kind ||
      json.at("problem") != ToString(problem)) {
    return Fail(
        Code::kInvalidArgument, "it is for another {}",
        json.at("version") != kVersion ? "version" : "device or problem");
  }
  ProblemMeasurements result;
  for (const Json& entry : json.at("batches")) {
    UCUDNN_ASSIGN_OR_RETURN(const BatchSize batch, BatchFrom(entry));
    MeasuredBatch& measured = result.batches[batch];
    UCUDNN_ASSIGN_OR_RETURN(const auto most,
                            NotNegative(entry, "max_workspace_bytes"));
    measured.max_workspace = Bytes(most);
    for (const Json& point : entry.at("points")) {
      UCUDNN_ASSIGN_OR_RETURN(auto parsed, PointFrom(point, batch));
      measured.points.push_back(std::move(parsed));
    }
  }
  UCUDNN_RETURN_IF_ERROR(ReadAdaptive(json, &result));
  return result;
}

}  // namespace

std::string ToJsonText(const ProblemMeasurements& measurements,
                       const std::string& kind, const ConvProblem& problem) {
  Json json = {{"version", kVersion},          {"kind", kind},
               {"problem", ToString(problem)}, {"batches", Json::array()},
               {"singles", Json::array()},     {"looks", Json::array()}};
  for (const auto& [batch, measured] : measurements.batches) {
    Json entry = {{"batch", batch.count()},
                  {"max_workspace_bytes", measured.max_workspace.count()},
                  {"points", Json::array()}};
    for (const MeasuredPoint& point : measured.points) {
      entry["points"].push_back(ToJson(point));
    }
    json["batches"].push_back(std::move(entry));
  }
  for (const MeasuredPoint& point : measurements.singles) {
    Json row = ToJson(point);
    row["batch"] = point.batch.count();
    json["singles"].push_back(std::move(row));
  }
  for (const AdaptiveQuery& query : measurements.queries) {
    json["looks"].push_back({{"batch", query.batch.count()},
                             {"limit_bytes", query.limit.count()},
                             {"each_below", query.each_below}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ProblemMeasurements> ParseMeasurements(std::string_view text,
                                              const std::string& kind,
                                              const ConvProblem& problem) {
  try {
    return FromJson(Json::parse(text.begin(), text.end()), kind, problem);
  } catch (const std::exception& error) {
    return Fail(Code::kInvalidArgument, "{}", error.what());
  }
}

MeasurementFiles::MeasurementFiles(const std::string& directory,
                                   std::string kind)
    : kind_(std::move(kind)) {
  if (directory.empty()) return;
  std::string name = kind_;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
  }
  folder_ = directory + "/measured/" + name;
}

MeasurementFiles::Lock::~Lock() { close(descriptor_); }

std::string MeasurementFiles::Path(const ConvProblem& problem) const {
  return fmt::format("{}/{}.json", folder_, ToString(problem));
}

ProblemMeasurements MeasurementFiles::Read(const ConvProblem& problem) const {
  if (folder_.empty()) return {};
  const auto text = ReadFile(Path(problem), kMaxFile);
  if (!text) return {};
  return ParseMeasurements(*text, kind_, problem)
      .value_or(ProblemMeasurements());
}

Status MeasurementFiles::Write(const ConvProblem& problem,
                               const ProblemMeasurements& measurements) const {
  if (folder_.empty()) return {};
  return ReplaceFile(Path(problem), ToJsonText(measurements, kind_, problem));
}

Result<std::unique_ptr<MeasurementFiles::Lock>> MeasurementFiles::Acquire(
    const ConvProblem& problem, std::chrono::milliseconds patience) {
  if (folder_.empty()) return nullptr;
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  const std::string path = Path(problem) + ".lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return nullptr;  // the folder is read-only
  auto lock = std::make_unique<Lock>(descriptor);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return nullptr;
    if (std::chrono::steady_clock::now() >= deadline) {
      return Fail(Code::kDeadlineExceeded,
                  "another process is still measuring {} after {} ms",
                  ToString(problem), patience.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return lock;
}

}  // namespace ucudnn
