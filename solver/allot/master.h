#ifndef UCUDNN_SOLVER_ALLOT_MASTER_H_
#define UCUDNN_SOLVER_ALLOT_MASTER_H_

// Prices for the devices of each kind, for solver/allot: the duals of
//
//   min  overload z - sum value_p x_p
//   where sum over the choices p of job j of x_p = 1        (for every job)
//         sum n_pk x_p - free_k z <= capacity_k             (for every kind)
//         x, z >= 0
//
// over the choices that were added so far, by the revised simplex method in
// floating point. Whatever the prices are, they prove bounds once they are
// rounded to integers; so errors here cost time, never exactness.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "solver/allot/curve.h"

namespace ucudnn::allot_internal {

class Master {
 public:
  // With `may_use_free`, capacity is `free`; otherwise 0, so that z is the
  // largest load of a kind relative to what is free.
  Master(std::size_t jobs, std::span<const std::int64_t> free,
         bool may_use_free, double overload);

  // Every job needs one choice before Optimize.
  void Add(std::size_t job, const Counts& counts, double value);
  void Optimize();

  // Of the optimum: the price of a device of each kind, and what the choices of
  // each job are worth at these prices.
  const std::vector<double>& prices() const { return prices_; }
  double WorthOf(std::size_t job) const { return worth_[job]; }
  double overload() const;  // z

 private:
  struct Column {
    std::size_t job = 0;
    Counts counts{};
    double value = 0;
  };

  // Columns: a slack for each kind, z, then choices.
  std::size_t First() const { return kinds_ + 1; }
  double CostOfColumn(std::size_t column) const;
  // Its entry in every row: jobs, then kinds.
  void Entries(std::size_t column, std::vector<double>* entries) const;
  void Start();
  void Price();
  // The column of the most negative reduced cost, or with `any` the first one.
  std::size_t Entering(bool any) const;
  bool Pivot(std::size_t entering);

  std::size_t jobs_;
  std::size_t kinds_;
  std::vector<double> free_;
  double overload_cost_;
  std::vector<double> right_;  // of every row
  std::vector<Column> columns_;
  std::vector<std::size_t> basis_;  // a column for each row; empty: not started
  std::vector<double> inverse_;     // of the basis, by row
  std::vector<double> values_;      // of the basic columns
  std::vector<double> prices_;
  std::vector<double> worth_;
};

}  // namespace ucudnn::allot_internal

#endif  // UCUDNN_SOLVER_ALLOT_MASTER_H_
