#include "coordinator/store/postgres_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>

#include "base/service/name_server.h"

namespace ucudnn {
namespace {

// libpq's connect_timeout begins later.
constexpr std::chrono::seconds kLookUpWithin{5};

std::vector<std::string> PartsOf(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

Result<PostgresUrl> PostgresUrl::Parse(const std::string& url) {
  using Options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;
  const Options defaults(PQconndefaults(), PQconninfoFree);
  const Options given(PQconninfoParse(url.c_str(), nullptr), PQconninfoFree);
  std::map<std::string, std::string> all;  // with those of the environment
  PostgresUrl read;
  read.parameters_ = {{"client_encoding", "UTF8"},
                      {"connect_timeout", "10"},
                      {"tcp_user_timeout", "30000"},
                      {"application_name", "ucudnn-coord"}};
  for (const Options* options : {&defaults, &given}) {
    for (auto* o = options->get(); o != nullptr && o->keyword != nullptr; ++o) {
      if (o->val == nullptr) continue;
      all[o->keyword] = o->val;
      if (options == &given) read.parameters_[o->keyword] = o->val;
    }
  }
  // libpq takes a password up to the first '@', if no '/' is before that.
  const bool rest_of_password =
      all["host"].find('@') > 0 && all["host"].find('@') != std::string::npos;
  const bool in_database = all["dbname"].find('@') != std::string::npos &&
                           url.find("%40") == std::string::npos;
  if (given == nullptr || rest_of_password || in_database) {
    // libpq's own message quotes the URL.
    return Fail(Code::kInvalidArgument,
                "the database's URL (--database, --database-file) cannot be "
                "read; postgresql://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE "
                "is accepted, with % / and @ in a password as %25 %2F %40");
  }
  const std::vector<std::string> ports = PartsOf(all["port"]);
  read.names_ = PartsOf(all[all["host"].empty() ? "hostaddr" : "host"]);
  for (std::size_t i = 0; i < read.names_.size(); ++i) {
    const std::string& host = read.names_[i];
    const bool v6 = host.find(':') != std::string::npos;
    read.servers_ +=
        fmt::format("{}{}:{}", i == 0 ? "" : ",", v6 ? "[" + host + "]" : host,
                    ports.empty() ? "" : ports[std::min(i, ports.size() - 1)]);
  }
  if (read.names_.empty()) read.servers_ = "this machine's socket";
  if (!all["hostaddr"].empty() ||
      !std::ranges::all_of(read.names_, IsHostName)) {
    read.names_.clear();
  }
  return read;
}

Result<PGconn*> PostgresUrl::Connect() const {
  if (!names_.empty()) {
    if (Status asked = AwaitNameServer(names_, kLookUpWithin); !asked) {
      return Fail(Code::kUnavailable, "PostgreSQL: {}", asked.error().message);
    }
  }
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : parameters_) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  return PQconnectdbParams(keywords.data(), values.data(), 0);
}

}  // namespace ucudnn
