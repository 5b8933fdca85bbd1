#include "tests/gpu/figures/screening.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "device/cudnn/graph/name.h"

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

std::vector<Promise> PromisesOf(const std::vector<SizedRun>& runs, Bytes limit,
                                double best) {
  struct Around {
    const SizedRun* fits = nullptr;      // the largest
    const SizedRun* does_not = nullptr;  // the smallest
  };
  std::map<Algorithm, Around> around;
  for (const SizedRun& run : runs) {
    const Candidate& candidate = run.run.candidate;
    Around& at = around[candidate.algorithm];
    if (candidate.workspace <= limit) {
      if (at.fits == nullptr || at.fits->batch < run.batch) at.fits = &run;
    } else if (at.does_not == nullptr || run.batch < at.does_not->batch) {
      at.does_not = &run;
    }
  }
  const auto number = [](auto value) {
    return static_cast<double>(value.count());
  };
  std::vector<Promise> promises;
  for (const auto& [algorithm, at] : around) {
    if (at.does_not == nullptr) continue;
    const double large = number(at.does_not->batch);
    const double need = number(at.does_not->run.candidate.workspace);
    double small = 0;
    double has = 0;
    double ns = 0;
    if (at.fits != nullptr) {
      if (at.does_not->batch < at.fits->batch) continue;
      small = number(at.fits->batch);
      has = number(at.fits->run.candidate.workspace);
      ns = at.fits->run.ns;
    }
    const double part = (number(limit) - has) / (need - has);
    const double most = std::floor(small + part * (large - small));
    if (most <= small) continue;
    const double expected =
        ns + (at.does_not->run.ns - ns) * (most - small) / (large - small);
    if (expected >= best * most) continue;
    promises.push_back({algorithm, BatchSize(static_cast<std::int64_t>(small)),
                        BatchSize(static_cast<std::int64_t>(most)),
                        expected / most});
  }
  std::stable_sort(promises.begin(), promises.end(),
                   [](const Promise& x, const Promise& y) {
                     return x.per_image < y.per_image;
                   });
  return promises;
}

std::vector<BatchSize> EvenParts(BatchSize batch, BatchSize most) {
  const std::int64_t n = batch.count();
  const std::int64_t parts = (n + most.count() - 1) / most.count();
  std::vector<BatchSize> sizes = {BatchSize((n + parts - 1) / parts)};
  if (n % parts != 0) sizes.push_back(BatchSize(n / parts));
  return sizes;
}

}  // namespace ucudnn::figures
