#include "solver/ilp/ilp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ucudnn {

IlpProblem MckpAsIlp(std::span<const MckpClass> classes, std::int64_t capacity,
                     std::span<const std::string> names) {
  IlpProblem problem;
  IlpRow capacity_row;
  capacity_row.most = capacity;
  capacity_row.name = "capacity";
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const std::string name =
        fmt::format("{}_{}", k + 1, names.empty() ? "class" : names[k]);
    IlpRow choice;
    choice.least = 1;
    choice.most = 1;
    choice.name = "one_" + name;
    for (const MckpItem& item : classes[k].items) {
      const std::size_t variable = problem.variables.size();
      problem.variables.push_back(
          {.cost = item.cost,
           .name = fmt::format("x_{}_{}", name, choice.terms.size() + 1)});
      choice.terms.push_back({variable, 1});
      if (item.weight != 0) {
        capacity_row.terms.push_back({variable, item.weight});
      }
    }
    problem.rows.push_back(std::move(choice));
  }
  problem.rows.push_back(std::move(capacity_row));
  return problem;
}

IlpProblem AssignmentAsIlp(const AssignProblem& problem,
                           std::span<const std::string> names) {
  IlpProblem ilp;
  ilp.variables.push_back({.cost = 1,
                           .most = kIlpUnbounded,
                           .integer = false,
                           .name = "makespan_ns"});
  IlpRow batch;
  batch.name = "batch";
  batch.least = problem.batch.count();
  batch.most = problem.batch.count();
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const std::string name =
        fmt::format("{}_{}", g + 1, names.empty() ? "gpu" : names[g]);
    IlpRow one;
    one.most = 1;
    one.name = "one_" + name;
    IlpRow slowest;  // its time less the makespan
    slowest.most = 0;
    slowest.name = "time_" + name;
    slowest.terms.push_back({0, -1});
    for (const BatchCost& cost : problem.tables[problem.gpus[g].table]) {
      if (cost.batch > problem.batch) break;
      const std::size_t variable = ilp.variables.size();
      ilp.variables.push_back(
          {.name = fmt::format("x_{}_b{}", name, cost.batch.count())});
      one.terms.push_back({variable, 1});
      batch.terms.push_back({variable, cost.batch.count()});
      slowest.terms.push_back({variable, cost.time.count()});
    }
    ilp.rows.push_back(std::move(one));
    ilp.rows.push_back(std::move(slowest));
  }
  ilp.rows.push_back(std::move(batch));
  return ilp;
}

double CostOf(const IlpProblem& problem, const std::vector<double>& values) {
  double cost = 0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    cost += static_cast<double>(problem.variables[j].cost) * values[j];
  }
  return cost;
}

Status CheckIlp(const IlpProblem& problem, const std::vector<double>& values) {
  if (values.size() != problem.variables.size()) {
    return Fail(Code::kInternal, "{} values for {} variables", values.size(),
                problem.variables.size());
  }
  for (std::size_t j = 0; j < values.size(); ++j) {
    const IlpVariable& variable = problem.variables[j];
    const bool low = values[j] < static_cast<double>(variable.least);
    const bool high = variable.most != kIlpUnbounded &&
                      values[j] > static_cast<double>(variable.most);
    const bool broken =
        variable.integer && values[j] != std::nearbyint(values[j]);
    if (low || high || broken) {
      return Fail(Code::kInternal, "variable {} may not be {}", j, values[j]);
    }
  }
  for (std::size_t i = 0; i < problem.rows.size(); ++i) {
    const IlpRow& row = problem.rows[i];
    __int128 whole = 0;
    double rest = 0;
    double size = 0;
    for (const IlpTerm& term : row.terms) {
      const double value = values[term.variable];
      if (problem.variables[term.variable].integer) {
        whole += static_cast<__int128>(term.coefficient) *
                 static_cast<std::int64_t>(value);
      } else {
        rest += static_cast<double>(term.coefficient) * value;
        size = std::max(size, std::abs(rest));
      }
    }
    bool broken = false;
    if (size == 0) {
      broken = (row.least != -kIlpUnbounded && whole < row.least) ||
               (row.most != kIlpUnbounded && whole > row.most);
    } else {
      const double sum = static_cast<double>(whole) + rest;
      const double slack = 1e-6 * (1 + size);
      broken = (row.least != -kIlpUnbounded &&
                sum < static_cast<double>(row.least) - slack) ||
               (row.most != kIlpUnbounded &&
                sum > static_cast<double>(row.most) + slack);
    }
    if (broken) {
      return Fail(Code::kInternal, "row {} is violated", i);
    }
  }
  return {};
}

}  // namespace ucudnn
