// One rank of session_test's jobs: creates a session on a fake device and
// writes down the outcome.
//
//   session_ranks FOLDER [KEY=VALUE...]
//
// Values that differ between ranks are written a/b/c, one for each rank.

#include <mpi.h>

#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "client/session/session.h"
#include "proto/convert_plan.h"
#include "tests/client/tiny_network.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

class Settings {
 public:
  Settings(int argc, char** argv, int rank) : rank_(rank) {
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      const auto equals = word.find('=');
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string Text(const std::string& key, std::string otherwise) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return otherwise;
    std::string rest = found->second;
    if (rest.find('/') == std::string::npos) return rest;
    for (int r = 0; r < rank_; ++r) rest = rest.substr(rest.find('/') + 1);
    return rest.substr(0, rest.find('/'));
  }
  std::int64_t Number(const std::string& key, std::int64_t otherwise) const {
    return std::stoll(Text(key, std::to_string(otherwise)));
  }

 private:
  int rank_;
  std::map<std::string, std::string> values_;
};

Json Run(const Settings& settings, FakeDevice& device) {
  SessionOptions options;
  options.network = TinyNetwork();
  options.network.name = settings.Text("network", options.network.name);
  if (settings.Number("layers", 1) == 0) options.network.layers.clear();
  if (settings.Number("filters", 0) > 0) {
    options.network.layers[1].geometry.filters = settings.Number("filters", 0);
  }
  if (const std::string budgets = settings.Text("memory", "");
      !budgets.empty()) {
    options.memory.emplace().budgets = ParseBudgets(budgets).value();
  }
  options.precision =
      ParsePrecision(settings.Text("precision", "FP32")).value();
  options.batch = BatchSize(settings.Number("batch", 8));
  options.ask_within = milliseconds(settings.Number("ask_ms", 5000));
  options.await_measurements = milliseconds(settings.Number("await_ms", 0));
  options.agree_within = milliseconds(settings.Number("agree_ms", 60000));
  const auto start = std::chrono::steady_clock::now();
  const auto session = Session::Create(MPI_COMM_WORLD, options, device);
  Json json;
  json["ms"] = std::chrono::duration_cast<milliseconds>(
                   std::chrono::steady_clock::now() - start)
                   .count();
  if (!session) {
    json["code"] = CodeName(session.error().code);
    json["message"] = session.error().message;
    return json;
  }
  const Session& s = **session;
  json["source"] = Name(s.source());
  json["reason"] = s.reason();
  json["batch"] = s.batch().count();
  json["weight"] = s.weight();
  json["first_image"] = s.first_image().count();
  json["memory_plan"] =
      s.memory_plan() == nullptr ? Json() : Json::parse(*s.memory_plan());
  json["plan"] = Json::parse(ToJsonText(s.plan()));
  return json;
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const Settings settings(argc, argv, rank);
  FakeDevice device;
  device.mutable_info().id =
      settings.Text("id", "fake-" + std::to_string(rank));
  if (const std::string slice = settings.Text("slice", ""); !slice.empty()) {
    device.mutable_info().id += "/" + slice + "sm";
  }
  device.mutable_info().kind.model = settings.Text("model", "Fake");
  if (settings.Number("lavish", 1) == 0) {
    device.algorithms().erase(device.algorithms().begin());
  }
  if (settings.Number("frugal", 1) == 0) device.algorithms().pop_back();
  Json json;
  json["absent"] = settings.Number("absent", 0) != 0;
  if (!json["absent"]) json = Run(settings, device);
  std::ofstream(fmt::format("{}/rank{}.json", argv[1], rank)) << json.dump(2);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
