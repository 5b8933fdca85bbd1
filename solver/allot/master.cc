#include "solver/allot/master.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ucudnn::allot_internal {
namespace {

constexpr double kTolerance = 1e-9;
constexpr std::size_t kNoColumn = std::numeric_limits<std::size_t>::max();

}  // namespace

Master::Master(std::size_t jobs, std::span<const std::int64_t> free,
               bool may_use_free, double overload)
    : jobs_(jobs),
      kinds_(free.size()),
      free_(free.begin(), free.end()),
      overload_cost_(overload),
      right_(jobs, 1.0),
      prices_(free.size(), 0),
      worth_(jobs, 0) {
  for (const double f : free_) right_.push_back(may_use_free ? f : 0.0);
}

void Master::Add(std::size_t job, const Counts& counts, double value) {
  columns_.push_back({job, counts, value});
}

double Master::overload() const {
  for (std::size_t r = 0; r < basis_.size(); ++r) {
    if (basis_[r] == kinds_) return values_[r];
  }
  return 0;
}

double Master::CostOfColumn(std::size_t column) const {
  if (column < kinds_) return 0;
  if (column == kinds_) return overload_cost_;
  return -columns_[column - First()].value;
}

void Master::Entries(std::size_t column, std::vector<double>* entries) const {
  entries->assign(jobs_ + kinds_, 0);
  if (column < kinds_) {
    (*entries)[jobs_ + column] = 1;
    return;
  }
  if (column == kinds_) {
    for (std::size_t k = 0; k < kinds_; ++k) (*entries)[jobs_ + k] = -free_[k];
    return;
  }
  const Column& choice = columns_[column - First()];
  (*entries)[choice.job] = 1;
  for (std::size_t k = 0; k < kinds_; ++k) {
    (*entries)[jobs_ + k] = choice.counts[k];
  }
}

// The first choice of every job, with z as large as they need.
void Master::Start() {
  const std::size_t rows = jobs_ + kinds_;
  basis_.assign(rows, kNoColumn);
  values_.assign(rows, 1.0);
  std::vector<double> load(kinds_, 0);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (basis_[columns_[c].job] != kNoColumn) continue;
    basis_[columns_[c].job] = First() + c;
    for (std::size_t k = 0; k < kinds_; ++k) load[k] += columns_[c].counts[k];
  }
  double z = 0;
  std::size_t tight = kinds_;
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (free_[k] <= 0) continue;
    const double over = (load[k] - right_[jobs_ + k]) / free_[k];
    if (over > z) {
      z = over;
      tight = k;
    }
  }
  for (std::size_t k = 0; k < kinds_; ++k) {
    const std::size_t row = jobs_ + k;
    basis_[row] = k == tight ? kinds_ : k;
    values_[row] = k == tight ? z : right_[row] + free_[k] * z - load[k];
  }
  // The inverse of [I 0; N S], where S is the identity but for z's column.
  inverse_.assign(rows * rows, 0);
  for (std::size_t r = 0; r < jobs_; ++r) inverse_[r * rows + r] = 1;
  const auto row_of = [&](std::size_t k) {
    return inverse_.data() + (jobs_ + k) * rows;
  };
  const auto counts_of = [&](std::size_t j) -> const Counts& {
    return columns_[basis_[j] - First()].counts;
  };
  for (std::size_t k = 0; k < kinds_; ++k) {
    double* const row = row_of(k);
    const double sign = k == tight ? -1 / free_[k] : 1.0;
    row[jobs_ + k] = sign;
    for (std::size_t j = 0; j < jobs_; ++j) row[j] = -counts_of(j)[k] * sign;
  }
  if (tight == kinds_) return;
  const double* const from = row_of(tight);
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (k == tight) continue;
    double* const row = row_of(k);
    for (std::size_t c = 0; c < rows; ++c) row[c] += free_[k] * from[c];
  }
}

void Master::Price() {
  const std::size_t rows = jobs_ + kinds_;
  std::vector<double> duals(rows, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    const double cost = CostOfColumn(basis_[r]);
    if (cost == 0) continue;
    const double* const row = inverse_.data() + r * rows;
    for (std::size_t c = 0; c < rows; ++c) duals[c] += cost * row[c];
  }
  for (std::size_t k = 0; k < kinds_; ++k) prices_[k] = -duals[jobs_ + k];
  for (std::size_t j = 0; j < jobs_; ++j) worth_[j] = -duals[j];
}

std::size_t Master::Entering(bool any) const {
  std::size_t best = kNoColumn;
  const double scale = std::max(1.0, overload_cost_);
  double least = -kTolerance * scale;
  const auto consider = [&](std::size_t column, double reduced) {
    if (reduced >= least) return false;
    best = column;
    least = reduced;
    return any;
  };
  double all = overload_cost_;
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (consider(k, prices_[k])) return best;
    all -= prices_[k] * free_[k];
  }
  if (consider(kinds_, all)) return best;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& choice = columns_[c];
    double reduced = worth_[choice.job] - choice.value;
    for (std::size_t k = 0; k < kinds_; ++k) {
      reduced += prices_[k] * choice.counts[k];
    }
    if (consider(First() + c, reduced)) return best;
  }
  return best;
}

bool Master::Pivot(std::size_t entering) {
  const std::size_t rows = jobs_ + kinds_;
  std::vector<double> entries;
  Entries(entering, &entries);
  std::vector<double> change(rows, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    const double* const row = inverse_.data() + r * rows;
    for (std::size_t c = 0; c < rows; ++c) change[r] += row[c] * entries[c];
  }
  std::size_t leaving = kNoColumn;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < rows; ++r) {
    if (change[r] <= kTolerance) continue;
    const double ratio = std::max(values_[r], 0.0) / change[r];
    if (ratio < least - 1e-12 ||
        (ratio <= least && basis_[r] < basis_[leaving])) {
      least = ratio;
      leaving = r;
    }
  }
  if (leaving == kNoColumn) return false;
  double* const pivot = inverse_.data() + leaving * rows;
  const double factor = 1 / change[leaving];
  for (std::size_t c = 0; c < rows; ++c) pivot[c] *= factor;
  for (std::size_t r = 0; r < rows; ++r) {
    if (r == leaving || change[r] == 0) continue;
    double* const row = inverse_.data() + r * rows;
    for (std::size_t c = 0; c < rows; ++c) row[c] -= change[r] * pivot[c];
    values_[r] -= change[r] * least;
  }
  values_[leaving] = least;
  basis_[leaving] = entering;
  return true;
}

void Master::Optimize() {
  if (basis_.empty()) Start();
  // The best column leads to the optimum in few steps; the first one to an end
  // even where steps change nothing.
  const std::size_t steps = 20 * (jobs_ + kinds_) + 200;
  for (std::size_t step = 0; step < steps; ++step) {
    Price();
    const std::size_t entering = Entering(step > steps / 2);
    if (entering == kNoColumn || !Pivot(entering)) break;
  }
  Price();
  for (double& price : prices_) price = std::max(price, 0.0);
}

}  // namespace ucudnn::allot_internal
