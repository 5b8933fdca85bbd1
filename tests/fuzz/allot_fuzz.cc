#include <algorithm>
#include <stop_token>
#include <vector>

#include "solver/allot/allot.h"
#include "solver/check/validate_allotment.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {
namespace {

std::vector<BatchCost> CostsOf(FuzzBytes& bytes) {
  std::vector<BatchCost> table;
  const bool rising = bytes.Byte() % 16 != 0;
  std::int64_t batch = 0;
  for (std::int64_t n = bytes.Byte() % 12; n > 0; --n) {
    batch = rising ? batch + 1 + bytes.Byte() % 3 : bytes.Number();
    table.push_back({BatchSize(batch), Nanoseconds(bytes.Number()), Bytes(0)});
  }
  return table;
}

AllotProblem AllotProblemOf(FuzzBytes& bytes) {
  AllotProblem problem;
  const std::int64_t head = bytes.Byte();
  problem.goal =
      head % 2 == 0 ? AllotGoal::kMaxMinShare : AllotGoal::kThroughput;
  for (std::int64_t k = head / 2 % 4; k >= 0; --k) {
    const std::int64_t free = bytes.Byte();
    problem.free.push_back(free > 250 ? -1 : free % 8);
  }
  for (std::int64_t j = head / 8 % 5; j > 0; --j) {
    AllotJob& job = problem.jobs.emplace_back();
    const std::int64_t batch = bytes.Number();
    job.batch = BatchSize(std::min<std::int64_t>(batch, 64));
    for (std::size_t k = 0; k < problem.free.size(); ++k) {
      job.tables.push_back(CostsOf(bytes));
    }
    const std::int64_t more = bytes.Byte();
    if (more % 4 == 0) job.weight = bytes.Number();
    if (more / 4 % 4 == 0) job.least = bytes.Byte() % 5;
    if (more / 16 % 4 == 0) job.most = bytes.Byte() % 9;
    if (more / 64 == 0) {
      for (std::int64_t n = bytes.Byte() % 40; n > 0; --n) {
        job.communication.emplace_back(bytes.Number());
      }
    }
  }
  return problem;
}

}  // namespace

// Every answer is valid, however the search ended.
UCUDNN_FUZZ(allot, text) {
  FuzzBytes bytes(text);
  const Limits limits = {.max_nodes = 1 + 64 * bytes.Byte(), .stop = {}};
  const AllotProblem problem = AllotProblemOf(bytes);
  const auto allotment = SolveAllotment(problem, limits);
  if (!allotment) return CheckError(allotment.error());
  const Status valid = ValidateAllotment(*allotment, problem);
  UCUDNN_CHECK(valid);
}

}  // namespace ucudnn
