#include "solver/allot/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace ucudnn::allot_internal {
namespace {

constexpr std::int64_t kWorst = std::numeric_limits<std::int64_t>::min() / 4;
// States that are remembered; about 40 bytes each.
constexpr std::size_t kMostStates = 8'000'000;
constexpr std::int64_t kNodesBetweenStops = 1024;

class Search {
 public:
  Search(const PackingProblem& problem, std::int64_t* nodes,
         const std::stop_token& stop)
      : problem_(problem),
        nodes_(nodes),
        stop_(stop),
        kinds_(problem.free.size()),
        target_(problem.at_least) {}

  Packing Run() {
    Prepare();
    left_.assign(problem_.free.begin(), problem_.free.end());
    chosen_.assign(problem_.jobs.size(), 0);
    const bool ended = Visit(0, 0);
    best_.complete = !ended || (problem_.any && !best_.options.empty());
    return std::move(best_);
  }

 private:
  struct Ranked {
    std::size_t option = 0;
    std::int64_t merit = 0;  // value less the price
  };

  void Prepare() {
    const std::size_t jobs = problem_.jobs.size();
    order_.resize(jobs);
    std::iota(order_.begin(), order_.end(), 0);
    ranked_.resize(jobs);
    std::vector<std::int64_t> least_cost(jobs, kMaxCount);
    for (std::size_t j = 0; j < jobs; ++j) {
      const auto& options = problem_.jobs[j];
      for (std::size_t o = 0; o < options.size(); ++o) {
        const std::int64_t cost =
            CostOf(options[o].counts, problem_.prices.front());
        least_cost[j] = std::min(least_cost[j], cost);
        ranked_[j].push_back({o, options[o].value - cost});
      }
      std::stable_sort(
          ranked_[j].begin(), ranked_[j].end(),
          [](const Ranked& a, const Ranked& b) { return a.merit > b.merit; });
    }
    // What needs much comes first; the rest fills the gaps.
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) {
                       return least_cost[a] > least_cost[b];
                     });
    best_after_.assign(problem_.prices.size(),
                       std::vector<std::int64_t>(jobs + 1, 0));
    for (std::size_t p = 0; p < problem_.prices.size(); ++p) {
      for (std::size_t d = jobs; d-- > 0;) {
        std::int64_t most = kWorst;
        for (const Option& option : problem_.jobs[order_[d]]) {
          most = std::max(
              most, option.value - CostOf(option.counts, problem_.prices[p]));
        }
        best_after_[p][d] =
            most == kWorst ? kWorst
                           : std::max(kWorst, best_after_[p][d + 1] + most);
      }
    }
    // The devices left as one number, if it can be.
    radix_.assign(kinds_, 0);
    unsigned __int128 size = jobs + 1;
    for (std::size_t k = 0; k < kinds_; ++k) {
      radix_[k] = static_cast<std::uint64_t>(size);
      size *= static_cast<std::uint64_t>(problem_.free[k]) + 1;
      if (size >> 63U != 0) {
        radix_.clear();
        return;
      }
    }
  }

  // The most that the jobs from the d-th on can add.
  bool MayReach(std::size_t d, std::int64_t value) const {
    for (std::size_t p = 0; p < problem_.prices.size(); ++p) {
      std::int64_t most = value + best_after_[p][d];
      const Prices& prices = problem_.prices[p];
      for (std::size_t k = 0; k < kinds_; ++k) most += prices[k] * left_[k];
      if (most < target_) return false;
    }
    return true;
  }

  // Whether an equal or better branch was here before.
  bool Known(std::size_t d, std::int64_t value) {
    if (radix_.empty()) return false;
    std::uint64_t key = d;
    for (std::size_t k = 0; k < kinds_; ++k) {
      key += radix_[k] * static_cast<std::uint64_t>(left_[k]);
    }
    const auto known = seen_.find(key);
    if (known != seen_.end()) {
      if (known->second >= value) return true;
      known->second = value;
      return false;
    }
    if (seen_.size() < kMostStates) seen_.emplace(key, value);
    return false;
  }

  bool Fits(const Counts& counts) const {
    for (std::size_t k = 0; k < kinds_; ++k) {
      if (counts[k] > left_[k]) return false;
    }
    return true;
  }

  // Returns whether the search is to end.
  bool Visit(std::size_t d, std::int64_t value) {
    if (d == order_.size()) {
      if (value < target_) return false;
      best_.value = value;
      best_.options = chosen_;
      target_ = value + 1;
      return problem_.any;
    }
    if (--*nodes_ < 0) return true;
    if (*nodes_ % kNodesBetweenStops == 0 && stop_.stop_requested()) {
      return true;
    }
    if (!MayReach(d, value)) return false;
    if (d > 0 && Known(d, value)) return false;
    const std::size_t job = order_[d];
    std::int64_t room = value + best_after_[0][d + 1];
    for (std::size_t k = 0; k < kinds_; ++k) {
      room += problem_.prices[0][k] * left_[k];
    }
    for (const Ranked& ranked : ranked_[job]) {
      if (room + ranked.merit < target_) break;
      const Option& option = problem_.jobs[job][ranked.option];
      if (!Fits(option.counts)) continue;
      for (std::size_t k = 0; k < kinds_; ++k) left_[k] -= option.counts[k];
      chosen_[job] = ranked.option;
      const bool end = Visit(d + 1, value + option.value);
      for (std::size_t k = 0; k < kinds_; ++k) left_[k] += option.counts[k];
      if (end) return true;
    }
    return false;
  }

  const PackingProblem& problem_;
  std::int64_t* nodes_;
  const std::stop_token& stop_;
  std::size_t kinds_;
  std::int64_t target_;
  std::vector<std::size_t> order_;
  std::vector<std::vector<Ranked>> ranked_;
  std::vector<std::vector<std::int64_t>> best_after_;
  std::vector<std::uint64_t> radix_;
  std::unordered_map<std::uint64_t, std::int64_t> seen_;
  std::vector<std::int64_t> left_;
  std::vector<std::size_t> chosen_;
  Packing best_;
};

}  // namespace

Packing Pack(const PackingProblem& problem, std::int64_t* nodes,
             const std::stop_token& stop) {
  return Search(problem, nodes, stop).Run();
}

}  // namespace ucudnn::allot_internal
