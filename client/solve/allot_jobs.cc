#include "client/solve/allot_jobs.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/json_object.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

// Dotted keys nest, and reading what is nested recurses.
constexpr std::ptrdiff_t kMostDotsOfALine = 64;
constexpr std::size_t kMostNameBytes = 63;

Json JsonOf(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) {
      object[std::string(key.str())] = JsonOf(value);
    }
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& element : *array) list.push_back(JsonOf(element));
    return list;
  }
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return *number;
  if (const auto number = node.value_exact<double>()) return *number;
  if (const auto truth = node.value_exact<bool>()) return *truth;
  return nullptr;  // dates and times
}

Status CheckDots(std::string_view text) {
  std::int64_t line = 1;
  while (!text.empty()) {
    const std::string_view head = text.substr(0, text.find('\n'));
    if (std::count(head.begin(), head.end(), '.') > kMostDotsOfALine) {
      return Fail(Code::kInvalidArgument,
                  "{}: more than {} dots; lists may have several lines", line,
                  kMostDotsOfALine);
    }
    text.remove_prefix(std::min(head.size() + 1, text.size()));
    ++line;
  }
  return {};
}

// Errors begin with the line.
Result<Json> ParseToml(std::string_view text) {
  UCUDNN_RETURN_IF_ERROR(CheckDots(text));
  try {
    return JsonOf(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalidArgument, "{}: {}", error.source().begin.line,
                Excerpt(error.description(), 200));
  }
}

Status CheckFields(const Json& object, const std::string& path,
                   const std::vector<std::string_view>& known) {
  if (!object.is_object()) {
    return JsonObject::Refusal(path, &object, "an object");
  }
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Fail(
          Code::kInvalidArgument, "{}{}unknown field '{}'; accepted: {}", path,
          path.empty() ? "" : ": ", Excerpt(name), fmt::join(known, ", "));
    }
  }
  return {};
}

// Names become names of jobs and values of labels and options.
Status CheckName(const std::string& name, const std::string& path) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
  };
  const bool good = !name.empty() && name.size() <= kMostNameBytes &&
                    plain(name.front()) && plain(name.back()) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return plain(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return {};
  return Fail(Code::kInvalidArgument,
              "{}: '{}'; up to {} letters, digits, '.', '_' and '-', beginning "
              "and ending with a letter or digit, are accepted",
              path, Excerpt(name), kMostNameBytes);
}

// A size as text, or bytes as a number.
void ReadLimit(const Json& json, JsonObject* object, Bytes* limit) {
  if (json.is_object() && json.contains("workspace_limit") &&
      json.at("workspace_limit").is_string()) {
    object->Read("workspace_limit", &ParseBytes, limit);
  } else {
    object->Read("workspace_limit", limit);
  }
}

Status ReadTimes(const Json& list, const std::string& path,
                 std::vector<Nanoseconds>* times) {
  if (!list.is_array() ||
      list.size() > static_cast<std::size_t>(kMaxAllotDevices)) {
    return JsonObject::Refusal(
        path, &list, fmt::format("a list of up to {} times", kMaxAllotDevices));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string element = fmt::format("{}[{}]", path, i);
    if (!list[i].is_number()) {
      return JsonObject::Refusal(element, &list[i], "a time in microseconds");
    }
    const auto time = FromMicroseconds(list[i].get<double>());
    if (!time) return Within(element, time.error());
    times->push_back(*time);
  }
  return {};
}

Result<JobToAllot> ReadJob(const Json& json, const std::string& path) {
  UCUDNN_RETURN_IF_ERROR(CheckFields(
      json, path,
      {"name", "network", "batch", "workspace_limit", "batch_policy",
       "precision", "layout", "weight", "least_gpus", "most_gpus", "fixed_us",
       "per_image_us", "exchange_us"}));
  JobToAllot job;
  JsonObject object(json, path);
  object.Read("name", &job.name);
  object.Read("network", &job.network);
  std::int64_t batch = 0;
  object.Read("batch", 1, kMaxBatchSize.count(), &batch);
  ReadLimit(json, &object, &job.workspace_limit);
  object.ReadOptional("batch_policy", &ParseBatchPolicy, &job.policy);
  object.ReadOptional("precision", &ParsePrecision, &job.precision);
  object.ReadOptional("layout", &ParseLayout, &job.layout);
  double weight = 1;
  if (object.Has("weight")) object.Read("weight", 0.001, 1000, &weight);
  if (object.Has("least_gpus")) {
    object.Read("least_gpus", 1, kMaxAllotDevices, &job.least);
  }
  if (object.Has("most_gpus")) {
    object.Read("most_gpus", job.least, kMaxAllotDevices, &job.most);
  }
  object.ReadOptional("fixed_us", &job.fixed);
  object.ReadOptional("per_image_us", &job.per_image);
  UCUDNN_RETURN_IF_ERROR(object.status());
  UCUDNN_RETURN_IF_ERROR(CheckName(job.name, path + ".name"));
  if (const auto times = json.find("exchange_us"); times != json.end()) {
    UCUDNN_RETURN_IF_ERROR(
        ReadTimes(*times, path + ".exchange_us", &job.communication));
  }
  job.batch = BatchSize(batch);
  job.weight = std::llround(weight * static_cast<double>(kUnitWeight));
  return job;
}

Result<ClusterNames> ReadNames(const Json& json, const std::string& path) {
  UCUDNN_RETURN_IF_ERROR(CheckFields(json, path, {"slurm", "kubernetes"}));
  ClusterNames names;
  JsonObject object(json, path);
  object.ReadOptional("slurm", &names.slurm);
  object.ReadOptional("kubernetes", &names.kubernetes);
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (!names.slurm.empty()) {
    UCUDNN_RETURN_IF_ERROR(CheckName(names.slurm, path + ".slurm"));
  }
  if (!names.kubernetes.empty()) {
    UCUDNN_RETURN_IF_ERROR(CheckName(names.kubernetes, path + ".kubernetes"));
  }
  return names;
}

Result<JobsToAllot> ReadJobs(const Json& json) {
  UCUDNN_RETURN_IF_ERROR(CheckFields(json, "", {"jobs", "kinds"}));
  JobsToAllot read;
  std::set<std::string> names;
  JsonObject object(json, "");
  object.ReadEach(
      "jobs", [&](const Json& value, const std::string& path) -> Status {
        if (read.jobs.size() == kMaxAllotJobs) {
          return Fail(Code::kInvalidArgument,
                      "jobs: more than {}; up to so many are accepted",
                      kMaxAllotJobs);
        }
        UCUDNN_ASSIGN_OR_RETURN(JobToAllot job, ReadJob(value, path));
        if (!names.insert(job.name).second) {
          return Fail(Code::kInvalidArgument,
                      "{}.name: '{}' is the name of another job", path,
                      job.name);
        }
        read.jobs.push_back(std::move(job));
        return {};
      });
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (read.jobs.empty()) {
    return Fail(Code::kInvalidArgument, "jobs: at least one is expected");
  }
  if (const auto kinds = json.find("kinds"); kinds != json.end()) {
    if (!kinds->is_object()) {
      return JsonObject::Refusal("kinds", &*kinds, "a table");
    }
    for (const auto& [kind, value] : kinds->items()) {
      UCUDNN_ASSIGN_OR_RETURN(
          read.kinds[kind],
          ReadNames(value, fmt::format("kinds.'{}'", Excerpt(kind))));
    }
  }
  return read;
}

}  // namespace

Result<JobsToAllot> ParseJobsToAllot(std::string_view text,
                                     std::string_view source) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    const auto json = ParseJson(text);
    if (!json) return Within(source, json.error());
    auto jobs = ReadJobs(*json);
    if (!jobs) return Within(source, std::move(jobs).error());
    return jobs;
  }
  const auto json = ParseToml(text);
  if (!json) {
    return Fail(Code::kInvalidArgument, "{}:{}", source, json.error().message);
  }
  auto jobs = ReadJobs(*json);
  if (!jobs) return Within(source, std::move(jobs).error());
  return jobs;
}

}  // namespace ucudnn
