// The largest least share. Whether every job can have a level is a packing
// problem; the largest level at which it has a solution is found by bisection
// over the levels that step times give.

#include <algorithm>
#include <cmath>
#include <utility>

#include "solver/allot/halves.h"
#include "solver/allot/master.h"
#include "solver/allot/model.h"
#include "solver/allot/packing.h"

namespace ucudnn::allot_internal {
namespace {

// What all free devices cost together, about.
constexpr double kPriceScale = 4294967296.0;
constexpr int kMostRounds = 200;
constexpr std::size_t kMostChoices = 20'000;  // of a job in one packing
// Price vectors that bound the packing besides the best ones.
constexpr std::size_t kOtherPrices = 3;
constexpr std::int64_t kNodesOfOneTry = 200'000;  // depth-first
constexpr std::size_t kStatesOfOneTry = 3000;     // then of each half
constexpr int kGrowth = 8;  // of both, for what a try could not decide

class MaxMin {
 public:
  MaxMin(const Model& model, Budget* budget)
      : model_(model), budget_(budget), known_(model.jobs()) {}

  Outcome Run() {
    std::int64_t bound = kMaxCount;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      bound = std::min(bound, model_.LevelOf(j, model_.alone(j)));
    }
    outcome_.bound = BoundByPrices(bound);
    Report();
    FindFirst();
    if (!outcome_.best.has_value() || budget_->any) {
      return std::move(outcome_);
    }
    // What one try could not decide, a longer one may.
    while (true) {
      Bisect();
      if (outcome_.objective >= outcome_.bound || Ended()) break;
      // Each try could have had all that is left, so only choices that are too
      // many to list are in the way.
      if (nodes_of_one_try_ >= budget_->nodes) break;
      nodes_of_one_try_ = nodes_of_one_try_ < budget_->nodes / kGrowth
                              ? nodes_of_one_try_ * kGrowth
                              : budget_->nodes;
      states_of_one_try_ *= kGrowth;
    }
    return std::move(outcome_);
  }

 private:
  enum class Answer { kYes, kNo, kUnknown };

  // Prices at which the jobs' cheapest choices together cost most of what all
  // devices do.
  struct Priced {
    Answer fits = Answer::kUnknown;  // kNo is proven; kYes is for fractions
    Prices prices;
    std::vector<std::int64_t> least;  // cost of each job
    std::int64_t slack = kMaxCount;
    std::vector<Prices> others;
  };

  std::int64_t CostOfAll(const Prices& prices) const {
    std::int64_t cost = 0;
    for (std::size_t k = 0; k < prices.size(); ++k) {
      cost += prices[k] * model_.free()[k];
    }
    return cost;
  }

  std::vector<std::int64_t> TimesFor(std::int64_t level) const {
    std::vector<std::int64_t> times(model_.jobs());
    for (std::size_t j = 0; j < times.size(); ++j) {
      times[j] = model_.TimeFor(j, level);
    }
    return times;
  }

  // All that is below `level` has the same times down to the result, which is
  // itself the next level to try; 0 if there is none.
  std::int64_t NextBelow(std::int64_t level) const {
    std::int64_t next = 0;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      const auto time = model_.curve(j).NextTime(model_.TimeFor(j, level));
      if (time.has_value()) next = std::max(next, model_.LevelOf(j, *time));
    }
    return std::min(next, level - 1);
  }

  void Learn(std::size_t job, const Counts& counts) {
    const auto time = model_.curve(job).LeastTime(counts);
    UCUDNN_CHECK(time.has_value());
    known_[job].push_back({counts, *time});
  }

  // Adds what is known of each job to `master`, or its cheapest choice. kNo if
  // a job has none, kUnknown if none was found.
  Answer Fill(const std::vector<std::int64_t>& times, Master* master) {
    const Prices even(model_.free().size(), 1);
    for (std::size_t j = 0; j < times.size(); ++j) {
      bool any = false;
      for (const Known& known : known_[j]) {
        if (known.time > times[j]) continue;
        master->Add(j, known.counts, 0);
        any = true;
      }
      if (any) continue;
      const auto cheapest = model_.curve(j).CheapestWithin(times[j], even);
      if (cheapest.none) return Answer::kNo;
      if (!cheapest.choice.has_value()) return Answer::kUnknown;
      Learn(j, cheapest.choice->counts);
      master->Add(j, cheapest.choice->counts, 0);
    }
    return Answer::kYes;
  }

  // With `quick`, only says whether fractions of choices fit.
  Priced PriceFor(const std::vector<std::int64_t>& times, bool quick) {
    Priced priced;
    Master master(model_.jobs(), model_.free(), false, 1.0);
    const Answer filled = Fill(times, &master);
    if (filled != Answer::kYes) {
      priced.fits = filled;
      return priced;
    }
    for (int round = 0; round < kMostRounds; ++round) {
      if (budget_->stop.stop_requested()) return priced;
      master.Optimize();
      if (quick && master.overload() <= 1 - 1e-9) {
        priced.fits = Answer::kYes;
        return priced;
      }
      Prices prices(model_.free().size());
      for (std::size_t k = 0; k < prices.size(); ++k) {
        prices[k] = std::llround(master.prices()[k] * kPriceScale);
      }
      std::vector<std::int64_t> least(times.size());
      std::int64_t slack = CostOfAll(prices);
      bool added = false;
      for (std::size_t j = 0; j < times.size(); ++j) {
        const auto below =
            static_cast<std::int64_t>(-master.WorthOf(j) * kPriceScale) + 1;
        const auto cheapest =
            model_.curve(j).CheapestWithin(times[j], prices, below);
        least[j] = cheapest.bound;
        slack -= least[j];
        // What differs by rounding alone improves nothing.
        if (!cheapest.choice.has_value() ||
            cheapest.choice->cost >= below - 16) {
          continue;
        }
        Learn(j, cheapest.choice->counts);
        master.Add(j, cheapest.choice->counts, 0);
        added = true;
      }
      if (slack < 0) {
        priced.fits = Answer::kNo;
        return priced;
      }
      if (slack < priced.slack) {
        priced.slack = slack;
        priced.least = std::move(least);
        if (!priced.prices.empty()) priced.others.push_back(priced.prices);
        priced.prices = std::move(prices);
      }
      if (!added) break;
    }
    priced.fits = Answer::kYes;
    return priced;
  }

  // The largest level that prices do not rule out, up to `high`.
  std::int64_t BoundByPrices(std::int64_t high) {
    std::int64_t low = 0;
    while (low < high) {
      // In powers first: levels can be of any size.
      const std::int64_t middle = low == 0 ? std::max<std::int64_t>(high / 2, 1)
                                           : low + (high - low + 1) / 2;
      const Priced priced = PriceFor(TimesFor(middle), true);
      if (priced.fits == Answer::kUnknown) break;
      if (priced.fits == Answer::kNo) {
        high = NextBelow(middle);
        if (middle == 1) break;
      } else {
        low = std::max(middle, SameAbove(middle));
      }
      if (high - low <= high >> 40) break;
    }
    return std::max(high, low);
  }

  // The largest level at which the jobs' times still allow the same steps.
  std::int64_t SameAbove(std::int64_t level) const {
    std::int64_t most = kMaxCount;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      const std::int64_t time =
          model_.curve(j).LastTime(model_.TimeFor(j, level));
      most = std::min(most, model_.LevelOf(j, time));
    }
    return most;
  }

  Answer TryLevel(std::int64_t level) {
    const std::vector<std::int64_t> times = TimesFor(level);
    const Priced priced = PriceFor(times, false);
    if (priced.fits != Answer::kYes) return priced.fits;
    PackingProblem packing;
    packing.free = model_.free();
    packing.any = true;
    packing.prices.push_back(priced.prices);
    for (std::size_t i = priced.others.size();
         i-- > 0 && packing.prices.size() <= kOtherPrices;) {
      packing.prices.push_back(priced.others[i]);
    }
    packing.prices.emplace_back(model_.free().size(), 1);
    bool complete = true;
    for (std::size_t j = 0; j < times.size(); ++j) {
      std::vector<Choice> choices;
      complete = model_.curve(j).AddChoices(times[j], priced.prices,
                                            priced.least[j] + priced.slack,
                                            kMostChoices, &choices) &&
                 complete;
      auto& options = packing.jobs.emplace_back();
      for (const Choice& choice : choices)
        options.push_back({choice.counts, 0});
    }
    std::int64_t nodes = std::min(budget_->nodes, nodes_of_one_try_);
    const std::int64_t before = nodes;
    Packing packed = Pack(packing, &nodes, budget_->stop);
    budget_->nodes -= before - std::max<std::int64_t>(nodes, 0);
    // Takes many more nodes, which the first allotment must not wait for.
    if (!packed.complete && outcome_.best.has_value() && !Ended()) {
      packed = PackHalves(packing, states_of_one_try_, &budget_->nodes,
                          budget_->stop);
      budget_->nodes = std::max<std::int64_t>(budget_->nodes, 0);
    }
    if (!packed.options.empty()) {
      Selection selection;
      for (std::size_t j = 0; j < times.size(); ++j) {
        selection.counts.push_back(packing.jobs[j][packed.options[j]].counts);
        selection.times.push_back(
            *model_.curve(j).LeastTime(selection.counts.back()));
      }
      Take(std::move(selection));
      return Answer::kYes;
    }
    return packed.complete && complete ? Answer::kNo : Answer::kUnknown;
  }

  void Take(Selection selection) {
    std::int64_t level = kMaxCount;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      level = std::min(level, model_.LevelOf(j, selection.times[j]));
    }
    if (outcome_.best.has_value() && level <= outcome_.objective) return;
    outcome_.best = std::move(selection);
    outcome_.objective = level;
    Report();
  }

  void Report() {
    if (budget_->report) budget_->report(outcome_.objective, outcome_.bound);
  }

  // A level was refuted: nothing above the next one is left.
  void Refuted(std::int64_t level) {
    outcome_.bound = std::min(outcome_.bound, NextBelow(level));
    outcome_.bound = std::max(outcome_.bound, outcome_.objective);
    Report();
  }

  bool Ended() const {
    return budget_->stop.stop_requested() || budget_->nodes <= 0;
  }

  // Falls from the bound in growing steps until a level has a solution.
  void FindFirst() {
    const std::int64_t top = outcome_.bound;
    for (std::int64_t step = std::max<std::int64_t>(top / 256, 1);; step *= 2) {
      const std::int64_t level = std::max<std::int64_t>(top - step, 1);
      if (Ended()) return;
      const Answer answer = TryLevel(level);
      if (answer == Answer::kYes) return;
      if (answer == Answer::kNo) {
        Refuted(level);
        outcome_.none = outcome_.bound == 0;
        if (outcome_.none) return;
      }
      if (level == 1) return;
    }
  }

  // Tries the bound itself first: with many jobs there mostly is a solution,
  // and fewer choices come into question than at any lower level.
  void Bisect() {
    std::int64_t high = outcome_.bound;
    std::int64_t level = high;
    while (outcome_.objective < high && !Ended()) {
      const Answer answer = TryLevel(level);
      if (answer == Answer::kNo) Refuted(level);
      if (answer != Answer::kYes) high = NextBelow(level);
      level = outcome_.objective + (high - outcome_.objective + 1) / 2;
    }
  }

  struct Known {
    Counts counts{};
    std::int64_t time = 0;
  };

  const Model& model_;
  Budget* budget_;
  std::vector<std::vector<Known>> known_;  // choices of each job
  std::int64_t nodes_of_one_try_ = kNodesOfOneTry;
  std::size_t states_of_one_try_ = kStatesOfOneTry;
  Outcome outcome_;
};

}  // namespace

Outcome SearchMaxMin(const Model& model, Budget* budget) {
  return MaxMin(model, budget).Run();
}

}  // namespace ucudnn::allot_internal
