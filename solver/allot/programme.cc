#include "solver/allot/programme.h"

#include <CbcEventHandler.hpp>
#include <CbcHeuristicDiveFractional.hpp>
#include <CbcModel.hpp>
#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ucudnn::allot_internal {
namespace {

// The largest cost of a column, so that CLP's tolerance, 1e-7, is a part in
// 10^13 of what all jobs are worth, and CBC's a part in 10^15.
constexpr double kLargestOfMaster = 1e6;
constexpr double kLargestOfPacking = 1e8;

// That an iteration looks at: ten million steps take CLP some ten seconds.
constexpr int kColumnsOfStep = 16;

// Columns with a row for each job, then for each kind.
struct Columns {
  std::vector<int> starts = {0};
  std::vector<int> rows;
  std::vector<double> entries;
  std::vector<double> least;
  std::vector<double> most;
  std::vector<double> costs;

  int size() const { return static_cast<int>(costs.size()); }
  void AddEntry(std::size_t row, double entry) {
    rows.push_back(static_cast<int>(row));
    entries.push_back(entry);
  }
  // Ends a column.
  void Close(double up_to, double cost) {
    starts.push_back(static_cast<int>(rows.size()));
    least.push_back(0);
    most.push_back(up_to);
    costs.push_back(cost);
  }
  void AddChoice(std::size_t job, std::size_t jobs, std::size_t kinds,
                 const Counts& counts, double up_to, double cost) {
    AddEntry(job, 1);
    for (std::size_t k = 0; k < kinds; ++k) {
      if (counts[k] > 0) AddEntry(jobs + k, counts[k]);
    }
    Close(up_to, cost);
  }
};

void Append(const Columns& columns, ClpSimplex* clp) {
  clp->addColumns(columns.size(), columns.least.data(), columns.most.data(),
                  columns.costs.data(), columns.starts.data(),
                  columns.rows.data(), columns.entries.data());
}

// What is left for one packing.
struct Allowance {
  std::int64_t steps;  // that are left
  std::int64_t steps_of_iteration;
  Budget* budget;

  bool Ended() const { return steps <= 0 || budget->Ended(); }
};

// Counts CLP's iterations, and ends a linear programme.
class IterationWatch : public ClpEventHandler {
 public:
  explicit IterationWatch(Allowance* allowance) : allowance_(allowance) {}

  int event(Event event) override {
    if (event != endOfIteration) return -1;
    allowance_->steps -= allowance_->steps_of_iteration;
    allowance_->budget->nodes -= allowance_->steps_of_iteration;
    return allowance_->Ended() ? 0 : -1;
  }
  ClpEventHandler* clone() const override { return new IterationWatch(*this); }

 private:
  Allowance* allowance_;
};

// Ends CBC's search.
class SearchWatch : public CbcEventHandler {
 public:
  explicit SearchWatch(const Allowance& allowance) : allowance_(&allowance) {}

  CbcAction event(CbcEvent /*event*/) override {
    return allowance_->Ended() ? stop : noAction;
  }
  CbcEventHandler* clone() const override { return new SearchWatch(*this); }

 private:
  const Allowance* allowance_;
};

}  // namespace

Master::Master(std::size_t jobs, std::span<const std::int64_t> free,
               bool may_use_free, double overload)
    : jobs_(jobs),
      kinds_(free.size()),
      unit_(overload / kLargestOfMaster),
      clp_(std::make_unique<ClpSimplex>()) {
  clp_->setLogLevel(0);
  clp_->resize(static_cast<int>(jobs + kinds_), 0);
  for (std::size_t j = 0; j < jobs; ++j) {
    clp_->setRowBounds(static_cast<int>(j), 1, 1);
  }
  Columns columns;
  for (std::size_t k = 0; k < kinds_; ++k) {
    const auto devices = static_cast<double>(free[k]);
    clp_->setRowBounds(static_cast<int>(jobs + k), -COIN_DBL_MAX,
                       may_use_free ? devices : 0);
    columns.AddEntry(jobs + k, -devices);
  }
  columns.Close(COIN_DBL_MAX, kLargestOfMaster);
  Append(columns, clp_.get());
}

Master::~Master() = default;

void Master::Add(std::size_t job, const Counts& counts, std::int64_t value) {
  Columns columns;
  columns.AddChoice(job, jobs_, kinds_, counts, COIN_DBL_MAX,
                    -static_cast<double>(value) / unit_);
  Append(columns, clp_.get());
}

void Master::Optimize() { clp_->primal(); }

std::int64_t Master::DualOf(std::size_t row) const {
  return std::llround(-clp_->getRowPrice()[row] * unit_);
}

Prices Master::prices() const {
  Prices prices(kinds_);
  for (std::size_t k = 0; k < kinds_; ++k) {
    prices[k] = std::max<std::int64_t>(DualOf(jobs_ + k), 0);
  }
  return prices;
}

std::int64_t Master::WorthOf(std::size_t job) const { return DualOf(job); }

double Master::overload() const { return clp_->getColSolution()[0]; }

// By the least loss against the bound of the prices: what each option's merit
// (value less price) lacks of its job's best, and the price of what is left.
Packing Pack(const PackingProblem& problem, std::int64_t most_steps,
             Budget* budget) {
  const std::size_t jobs = problem.jobs.size();
  const std::size_t kinds = problem.free.size();
  const auto merit_of = [&](const Option& option) {
    return option.value - CostOf(option.counts, problem.prices);
  };
  Packing packing;
  std::int64_t limit = -problem.at_least;  // of the loss
  for (std::size_t k = 0; k < kinds; ++k) {
    limit += problem.prices[k] * problem.free[k];
  }
  std::vector<std::int64_t> best;
  for (const auto& options : problem.jobs) {
    packing.complete = options.empty();
    if (packing.complete) return packing;
    best.push_back(merit_of(options.front()));
    for (const Option& option : options) {
      best.back() = std::max(best.back(), merit_of(option));
    }
    limit += best.back();
  }
  packing.complete = limit < 0;
  if (packing.complete) return packing;

  const double unit =
      std::max(1.0, static_cast<double>(limit) / kLargestOfPacking);
  Columns columns;
  std::vector<double> right(jobs, 1);
  for (std::size_t k = 0; k < kinds; ++k) {  // devices that are left
    right.push_back(static_cast<double>(problem.free[k]));
    columns.AddEntry(jobs + k, 1);
    columns.Close(
        right.back(),
        problem.any ? 0 : static_cast<double>(problem.prices[k]) / unit);
  }
  struct Place {
    std::size_t job = 0;
    std::size_t option = 0;
  };
  std::vector<Place> places;
  for (std::size_t j = 0; j < jobs; ++j) {
    for (std::size_t o = 0; o < problem.jobs[j].size(); ++o) {
      const Option& option = problem.jobs[j][o];
      const std::int64_t loss = best[j] - merit_of(option);
      if (loss > limit) continue;
      columns.AddChoice(j, jobs, kinds, option.counts, 1,
                        static_cast<double>(loss) / unit);
      places.push_back({j, o});
    }
  }
  OsiClpSolverInterface osi;
  osi.loadProblem(
      columns.size(), static_cast<int>(right.size()), columns.starts.data(),
      columns.rows.data(), columns.entries.data(), columns.least.data(),
      columns.most.data(), columns.costs.data(), right.data(), right.data());
  for (std::size_t i = kinds; i < kinds + places.size(); ++i) {
    osi.setInteger(static_cast<int>(i));
  }
  osi.messageHandler()->setLogLevel(0);
  Allowance allowance = {most_steps, 1 + columns.size() / kColumnsOfStep,
                         budget};
  const IterationWatch iteration_watch(&allowance);
  osi.getModelPtr()->passInEventHandler(&iteration_watch);
  CbcModel cbc(osi);
  cbc.setLogLevel(0);
  // On allot_bench, cuts and the feasibility pump take longer than they save.
  CbcHeuristicDiveFractional dive(cbc);
  cbc.addHeuristic(&dive);
  const SearchWatch search_watch(allowance);
  cbc.passInEventHandler(&search_watch);
  cbc.setAllowableGap(0);
  cbc.setDblParam(CbcModel::CbcCutoffIncrement, 0.5 / unit);
  cbc.setCutoff((static_cast<double>(limit) + 1) / unit);
  if (problem.any) cbc.setMaximumSolutions(1);
  cbc.branchAndBound();

  packing.complete =
      !allowance.Ended() && (cbc.isProvenOptimal() || cbc.isProvenInfeasible());
  const double* const found = cbc.bestSolution();
  if (found == nullptr) return packing;
  constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> taken(jobs, kNone);
  std::vector<std::int64_t> left(problem.free.begin(), problem.free.end());
  std::int64_t value = 0;
  std::size_t number = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (found[kinds + i] < 0.5) continue;
    const auto [job, o] = places[i];
    const Option& option = problem.jobs[job][o];
    taken[job] = o;
    ++number;
    value += option.value;
    for (std::size_t k = 0; k < kinds; ++k) left[k] -= option.counts[k];
  }
  const bool fits = number == jobs && std::ranges::count(taken, kNone) == 0 &&
                    *std::ranges::min_element(left) >= 0;
  if (!fits) packing.complete = false;
  if (fits && value >= problem.at_least) packing.options = std::move(taken);
  return packing;
}

}  // namespace ucudnn::allot_internal
