#include "client/solve/allot_jobs.h"

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

// Names become names of jobs and values of labels and options.
Result<std::string> ParseJobName(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
  };
  const bool good = !name.empty() && name.size() <= kMostNameBytes &&
                    plain(name.front()) && plain(name.back()) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return plain(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return std::string(name);
  return Fail(Code::kInvalidArgument,
              "'{}'; up to {} letters, digits, '.', '_' and '-', beginning "
              "and ending with a letter or digit, are accepted",
              Excerpt(name), kMostNameBytes);
}

// A size as text, or bytes as a number.
void ReadLimit(JsonObject& object, Bytes* limit) {
  const auto field = object.json().find("workspace_limit");
  if (field != object.json().end() && field->is_string()) {
    object.Read("workspace_limit", &ParseBytes, limit);
  } else {
    object.Read("workspace_limit", limit);
  }
}

void ReadTimes(JsonObject& object, std::vector<Nanoseconds>* times) {
  if (!object.Has("exchange_us")) return;
  object.ReadEach(
      "exchange_us", [&](const Json& value, const std::string& at) -> Status {
        const auto time =
            FromMicroseconds(value.is_number() ? value.get<double>() : -1);
        if (!time || std::ssize(*times) == kMaxAllotDevices) {
          return JsonObject::Refusal(
              at, &value,
              fmt::format("a list of up to {} times in microseconds",
                          kMaxAllotDevices));
        }
        times->push_back(*time);
        return {};
      });
}

void ReadJob(JsonObject& object, JobToAllot* job) {
  object.Read("name", &ParseJobName, &job->name);
  object.Read("network", &job->network);
  object.Read("batch", BatchSize(1), kMaxBatchSize, &job->batch);
  ReadLimit(object, &job->workspace_limit);
  object.ReadOptional("batch_policy", &ParseBatchPolicy, &job->policy);
  object.ReadOptional("precision", &ParsePrecision, &job->precision);
  object.ReadOptional("layout", &ParseLayout, &job->layout);
  double weight = 1;
  object.ReadOptional("weight", 0.001, 1000, &weight);
  job->weight = std::llround(weight * static_cast<double>(kUnitWeight));
  object.ReadOptional("least_gpus", 1, kMaxAllotDevices, &job->least);
  object.ReadOptional("most_gpus", job->least, kMaxAllotDevices, &job->most);
  object.ReadOptional("fixed_us", &job->fixed);
  object.ReadOptional("per_image_us", &job->per_image);
  ReadTimes(object, &job->communication);
  object.RefuseOthers();
}

void ReadNames(JsonObject& object, ClusterNames* names) {
  object.ReadOptional("slurm", &ParseJobName, &names->slurm);
  object.ReadOptional("kubernetes", &ParseJobName, &names->kubernetes);
  object.RefuseOthers();
}

Result<JobsToAllot> ReadJobs(const Json& json) {
  JobsToAllot read;
  std::set<std::string> names;
  JsonObject object(json, "");
  const auto read_job = [&](JsonObject& inner, JobToAllot* job) {
    ReadJob(inner, job);
    if (!names.insert(job->name).second) {
      inner.Refuse("name", "a name that no other job has");
    }
    if (read.jobs.size() > kMaxAllotJobs) {
      inner.Refuse("", fmt::format("a list of up to {} jobs", kMaxAllotJobs));
    }
  };
  object.ReadEach("jobs", read_job, &read.jobs);
  if (read.jobs.empty()) object.Refuse("jobs", "one job or more");
  if (object.Has("kinds")) {
    object.ReadInside("kinds", [&](const Json& kinds, std::string path) {
      JsonObject table(kinds, std::move(path));
      for (const auto& [kind, value] : kinds.items()) {
        JsonObject inner(value, fmt::format("kinds.'{}'", Excerpt(kind)));
        ReadNames(inner, &read.kinds[kind]);
        if (table.status() && !inner.status()) return inner.status();
      }
      return table.status();
    });
  }
  object.RefuseOthers();
  UCUDNN_RETURN_IF_ERROR(object.status());
  return read;
}

}  // namespace

Result<JobsToAllot> ParseJobsToAllot(std::string_view text,
                                     std::string_view source) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    auto jobs = ParseJson(text).and_then(ReadJobs);
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
