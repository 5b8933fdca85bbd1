#ifndef UCUDNN_SOLVER_ALLOT_MODEL_H_
#define UCUDNN_SOLVER_ALLOT_MODEL_H_

// The jobs of solver/allot, and the search for their devices.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "solver/allot/allot.h"
#include "solver/allot/curve.h"

namespace ucudnn::allot_internal {

// The jobs with what they could reach alone. Refers to the problem.
class Model {
 public:
  // kFailedPrecondition if a job cannot run even alone.
  static Result<Model> Make(const AllotProblem& problem);

  const AllotProblem& problem() const { return *problem_; }
  std::span<const std::int64_t> free() const { return problem_->free; }
  std::size_t jobs() const { return curves_.size(); }
  const Curve& curve(std::size_t job) const { return curves_[job]; }
  std::int64_t alone(std::size_t job) const { return alone_[job]; }

  // share / weight and share * weight of a step time, in parts of kWholeShare,
  // rounded down. Both fall as the time rises.
  std::int64_t LevelOf(std::size_t job, std::int64_t time) const;
  std::int64_t ValueOf(std::size_t job, std::int64_t time) const;
  std::int64_t ShareOf(std::size_t job, std::int64_t time) const;
  // The longest step time of at least this level.
  std::int64_t TimeFor(std::size_t job, std::int64_t level) const;

 private:
  const AllotProblem* problem_ = nullptr;
  std::vector<Curve> curves_;
  std::vector<std::int64_t> alone_;
};

// Devices of each job with their step times.
struct Selection {
  std::vector<Counts> counts;
  std::vector<std::int64_t> times;
};

struct Outcome {
  std::optional<Selection> best;
  std::int64_t objective = 0;
  std::int64_t bound = 0;
  bool none = false;  // proven: there is no selection
};

struct Budget {
  std::int64_t nodes = 0;  // left
  std::stop_token stop;
  bool any = false;  // whether the first selection ends the search
  std::function<void(std::int64_t objective, std::int64_t bound)> report;

  bool Ended() const { return nodes <= 0 || stop.stop_requested(); }
};

// `bound` holds whatever ended the search.
Outcome SearchAllotment(const Model& model, Budget* budget);

}  // namespace ucudnn::allot_internal

#endif  // UCUDNN_SOLVER_ALLOT_MODEL_H_
