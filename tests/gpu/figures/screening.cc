#include "tests/gpu/figures/screening.h"

#include <algorithm>

#include "device/cudnn/graph_name.h"

namespace ucudnn::figures {
namespace {

bool AreRivals(const Candidate& candidate, const Candidate& other) {
  return other.workspace <= candidate.workspace &&
         (cudnn::IsEngineName(candidate.algorithm.name) ||
          !cudnn::IsEngineName(other.algorithm.name));
}

}  // namespace

void Trend::Add(BatchSize batch, double ns) {
  before_ = last_;
  last_ = {static_cast<double>(batch.count()), ns};
}

std::optional<double> Trend::At(BatchSize batch) const {
  if (!before_) return std::nullopt;
  const double more = std::max(
      (last_->ns - before_->ns) / (last_->images - before_->images), 0.0);
  return last_->ns +
         more * (static_cast<double>(batch.count()) - last_->images);
}

std::optional<double> BestRival(const std::vector<Timed>& runs,
                                const Candidate& candidate) {
  std::optional<double> best;
  for (const Timed& run : runs) {
    if (AreRivals(candidate, run.candidate)) {
      best = std::min(best.value_or(run.ns), run.ns);
    }
  }
  return best;
}

std::vector<std::size_t> WorthMeasuring(const std::vector<Timed>& runs,
                                        double near, int most_faster) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Candidate& candidate = runs[i].candidate;
    if (runs[i].ns > near * *BestRival(runs, candidate)) continue;
    const auto faster =
        std::count_if(runs.begin(), runs.end(), [&](const Timed& run) {
          return run.ns < runs[i].ns && AreRivals(candidate, run.candidate);
        });
    if (faster <= most_faster) kept.push_back(i);
  }
  return kept;
}

std::vector<BatchSize> EvenParts(BatchSize batch, BatchSize most) {
  const std::int64_t n = batch.count();
  const std::int64_t parts = (n + most.count() - 1) / most.count();
  std::vector<BatchSize> sizes = {BatchSize((n + parts - 1) / parts)};
  if (n % parts != 0) sizes.push_back(BatchSize(n / parts));
  return sizes;
}

}  // namespace ucudnn::figures
