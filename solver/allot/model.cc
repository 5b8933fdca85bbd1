#include "solver/allot/model.h"

#include <algorithm>

namespace ucudnn::allot_internal {
namespace {

// factor / divisor, rounded down, at least 1 and at most kMaxCount.
std::int64_t Quotient(unsigned __int128 factor, unsigned __int128 divisor) {
  const unsigned __int128 quotient = factor / divisor;
  if (quotient >= static_cast<unsigned __int128>(kMaxCount)) return kMaxCount;
  return std::max<std::int64_t>(static_cast<std::int64_t>(quotient), 1);
}

unsigned __int128 Wide(std::int64_t number) {
  return static_cast<unsigned __int128>(number);
}

}  // namespace

Result<Model> Model::Make(const AllotProblem& problem) {
  Model model;
  model.problem_ = &problem;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const Curve& curve =
        model.curves_.emplace_back(problem.jobs[j], problem.free);
    const auto time = curve.LeastTimeOfAll();
    if (!time.has_value()) {
      return Fail(Code::kFailedPrecondition,
                  "job {} cannot run on the free devices even alone: no {} to "
                  "{} of them have batches that sum to {}",
                  j, problem.jobs[j].least, problem.jobs[j].most,
                  problem.jobs[j].batch.count());
    }
    // A step of no time is as good as one of a nanosecond.
    model.alone_.push_back(std::max<std::int64_t>(*time, 1));
  }
  return model;
}

std::int64_t Model::LevelOf(std::size_t job, std::int64_t time) const {
  return Quotient(
      Wide(alone_[job]) * Wide(kWholeShare) * Wide(kUnitWeight),
      Wide(std::max(time, alone_[job])) * Wide(problem_->jobs[job].weight));
}

std::int64_t Model::ValueOf(std::size_t job, std::int64_t time) const {
  return Quotient(Wide(alone_[job]) * Wide(problem_->jobs[job].weight) *
                      Wide(kWholeShare / kUnitWeight),
                  Wide(std::max(time, alone_[job])));
}

std::int64_t Model::ShareOf(std::size_t job, std::int64_t time) const {
  return Quotient(Wide(alone_[job]) * Wide(kWholeShare),
                  Wide(std::max(time, alone_[job])));
}

std::int64_t Model::TimeFor(std::size_t job, std::int64_t level) const {
  if (level <= 1) return kMaxCount;
  return Quotient(Wide(alone_[job]) * Wide(kWholeShare) * Wide(kUnitWeight),
                  Wide(level) * Wide(problem_->jobs[job].weight));
}

}  // namespace ucudnn::allot_internal
