// The load of tests/soak.py: clients that keep coordinators busy until SIGTERM,
// or `--observe`, which reads everything once:
//
//   history_load --coordinator HOST:PORT,... --history FILE [--seed N]
//       [--agents N --first-agent N] [--jobs N] [--planners N] [--observe]

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "base/service/signals.h"
#include "tests/integration/history/load.h"

namespace ucudnn::test {
namespace {

using std::chrono::milliseconds;

constexpr char kMadeUpKind[] = "MADE-UP/1u/1GiB/made-up-1.0";

int Main(int argc, char** argv) {
  // At rates that leave a machine of two cores idle most of the time.
  LoadShape shape = {.agents = 0,
                     .jobs = 0,
                     .planners = 0,
                     .agent = milliseconds(2'000),
                     .job = milliseconds(250),
                     .planner = milliseconds(100),
                     .observer = milliseconds(30'000)};
  std::vector<std::string> coordinators;
  std::string file;
  std::uint32_t seed = 1;
  bool observe = false;
  CLI::App app("Keeps coordinators busy.");
  app.add_option("--coordinator", coordinators)->delimiter(',')->required();
  app.add_option("--history", file)->required();
  app.add_option("--seed", seed);
  app.add_option("--agents", shape.agents);
  app.add_option("--first-agent", shape.first_agent);
  app.add_option("--jobs", shape.jobs);
  app.add_option("--planners", shape.planners);
  app.add_flag("--observe", observe);
  CLI11_PARSE(app, argc, argv);
  const StopSignals signals;
  History history(file);
  const Site site = {
      .coordinators = coordinators,
      .access = [](Role, const std::string&,
                   const std::string&) { return Access::Open({}, {}).value(); },
      .history = history,
      .made_up_kind = kMadeUpKind,
      .kinds = {kMadeUpKind}};
  // Tasks, points and the status, and jobs if there are any.
  if (observe) return Observer(site, seed).Turn() < 3 ? 1 : 0;
  const Load load(site, seed, shape);
  while (!signals.Wait(milliseconds(200))) {
  }
  return 0;
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) { return ucudnn::test::Main(argc, argv); }
