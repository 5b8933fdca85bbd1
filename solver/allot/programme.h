#ifndef UCUDNN_SOLVER_ALLOT_PROGRAMME_H_
#define UCUDNN_SOLVER_ALLOT_PROGRAMME_H_

// The linear and integer programmes of solver/allot, solved by CLP and CBC
// (COIN-OR). Symbols: docs/solver.md; c is a choice, n_ck its devices of kind
// k, and v_c its value.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "solver/allot/curve.h"
#include "solver/allot/model.h"

class ClpSimplex;

namespace ucudnn::allot_internal {

// Prices for a device of each kind: the duals of
//
//   min  overload z - sum v_c x_c
//   where sum over the choices c of job j of x_c = 1        (for every job)
//         sum n_ck x_c - free_k z <= capacity_k             (for every kind)
//         x, z >= 0
//
// over the choices that were added so far. Whatever the prices are, they prove
// bounds once they are rounded to integers; so errors here cost time alone.
class Master {
 public:
  // With `may_use_free`, capacity is `free`; otherwise 0, so that z is the
  // largest load of a kind relative to what is free.
  Master(std::size_t jobs, std::span<const std::int64_t> free,
         bool may_use_free, double overload);
  ~Master();

  // Every job needs one choice before Optimize.
  void Add(std::size_t job, const Counts& counts, std::int64_t value);
  void Optimize();

  // Of the optimum: the price of a device of each kind, what the choices of a
  // job are worth at these prices, and z.
  Prices prices() const;
  std::int64_t WorthOf(std::size_t job) const;
  double overload() const;

 private:
  std::int64_t DualOf(std::size_t row) const;

  std::size_t jobs_;
  std::size_t kinds_;
  double unit_;  // of values, as CLP's tolerances are absolute
  std::unique_ptr<ClpSimplex> clp_;
};

struct Option {
  Counts counts{};
  std::int64_t value = 0;
};

struct PackingProblem {
  std::span<const std::int64_t> free;
  std::vector<std::vector<Option>> jobs;
  Prices prices;              // any; good ones save time
  std::int64_t at_least = 0;  // only packings of at least this value count
  // Whether the first packing ends the search; all values are 0 then.
  bool any = false;
};

struct Packing {
  // The option of each job; empty if no packing was found.
  std::vector<std::size_t> options;
  bool complete = false;  // no packing is of a higher value, unless any
};

// Takes one option for each job so that all fit the free devices, in up to
// `most_steps` of `budget`. What it finds is checked in integers; that there is
// nothing better rests on CBC's floating point.
Packing Pack(const PackingProblem& problem, std::int64_t most_steps,
             Budget* budget);

}  // namespace ucudnn::allot_internal

#endif  // UCUDNN_SOLVER_ALLOT_PROGRAMME_H_
