// The largest sum of weighted shares, by rising loss against prices.

#include <algorithm>
#include <cmath>
#include <utility>

#include "solver/allot/halves.h"
#include "solver/allot/master.h"
#include "solver/allot/model.h"
#include "solver/allot/packing.h"

namespace ucudnn::allot_internal {
namespace {

constexpr int kMostPricings = 300;
constexpr std::size_t kMostOptions = 50'000;  // of a job in one packing
constexpr std::size_t kFurtherPrices = 3;
constexpr std::int64_t kQuickSteps = 100;  // of a walk at first prices
// A search for a cheap choice covers times whose value is higher by a part.
constexpr std::int64_t kPartOfValue = 8;
// Of a packing in halves: to find a good one, and to prove one.
constexpr std::size_t kStatesOfTry = 3000;
constexpr std::size_t kStatesOfProof = 500'000;

class Throughput {
 public:
  Throughput(const Model& model, Budget* budget)
      : model_(model), budget_(budget), known_(model.jobs()) {}

  Outcome Run() {
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      outcome_.bound += model_.ValueOf(j, model_.alone(j));
    }
    FindAnything();
    if (outcome_.none || !outcome_.best.has_value()) {
      return std::move(outcome_);
    }
    FindPrices();
    PackKnown();
    Deepen();
    return std::move(outcome_);
  }

 private:
  // A choice's merit is its value less its price.
  struct Best {
    std::optional<Option> option;
    std::int64_t merit = 0;
    std::int64_t bound = 0;  // no choice has more merit
  };

  std::int64_t MeritBound(std::size_t job, const Curve::Group& group,
                          std::size_t time, const Prices& prices) const {
    const Curve& curve = model_.curve(job);
    const auto most = curve.MostAt(time);
    double rate = HUGE_VAL;
    std::int64_t cheapest = kMaxCount;
    for (std::size_t k = 0; k < prices.size(); ++k) {
      if (most[k] == 0) continue;
      rate = std::min(
          rate, static_cast<double>(prices[k]) / static_cast<double>(most[k]));
      cheapest = std::min(cheapest, prices[k]);
    }
    const auto batch =
        static_cast<double>(model_.problem().jobs[job].batch.count());
    const double cost =
        std::max(rate * batch, static_cast<double>(group.least) *
                                   static_cast<double>(cheapest)) *
        (1 - 1e-9);
    const std::int64_t value =
        model_.ValueOf(job, curve.times()[time] + group.extra);
    return cost > 4e18 ? -kMaxCount : value - static_cast<std::int64_t>(cost);
  }

  // The choice of the most merit above `least`, as far as `steps` for each time
  // find it. The cheapest choice within a time is the cheapest down to the
  // least time that it holds, so most times need no search.
  Best BestOf(std::size_t job, const Prices& prices, std::int64_t least,
              std::int64_t steps) const {
    Best best;
    best.merit = least;
    best.bound = least;
    const Curve& curve = model_.curve(job);
    for (const Curve::Group& group : curve.groups()) {
      const auto value_at = [&](std::size_t time) {
        return model_.ValueOf(job, curve.times()[time] + group.extra);
      };
      std::int64_t cost = 0;  // what the times to come cost at least
      for (std::size_t next = curve.times().size(); next > 0;) {
        const std::size_t time = --next;
        const std::int64_t value = value_at(time);
        if (value - cost <= best.merit ||
            MeritBound(job, group, time, prices) <= best.merit) {
          continue;
        }
        if (budget_->stop.stop_requested()) {
          best.bound = model_.ValueOf(job, model_.alone(job));
          return best;
        }
        // If nothing is cheap enough for a somewhat lesser time, then nothing
        // is for all times between.
        std::size_t first = time;
        while (first > 0 &&
               value_at(first - 1) <= value + value / kPartOfValue) {
          --first;
        }
        const auto cheapest = curve.CheapestOfGroup(
            group, time, prices, value_at(first) - best.merit, steps);
        cost = std::max(cost, cheapest.bound);
        next = first;
        if (cheapest.choice.has_value()) {
          next = curve.FirstHeld(cheapest.choice->counts, 0, time);
          const std::int64_t merit = value_at(next) - cheapest.choice->cost;
          if (merit > best.merit) {
            best.merit = merit;
            best.option = Option{cheapest.choice->counts, value_at(next)};
          }
        }
        best.bound = std::max(best.bound, value_at(next) - cheapest.bound);
      }
    }
    best.bound = std::max(best.bound, best.merit);
    return best;
  }

  void Learn(std::size_t job, const Counts& counts, Master* master) {
    const auto time = model_.curve(job).LeastTime(counts);
    UCUDNN_CHECK(time.has_value());
    const std::int64_t value = model_.ValueOf(job, *time);
    known_[job].push_back({counts, value});
    master->Add(job, counts, static_cast<double>(value));
  }

  // Any allotment at all, for a start, from the search for the least share.
  void FindAnything() {
    Budget budget;
    budget.nodes = budget_->nodes;
    budget.stop = budget_->stop;
    budget.any = true;
    Outcome any = SearchMaxMin(model_, &budget);
    budget_->nodes = budget.nodes;
    outcome_.none = any.none;
    if (any.best.has_value()) Take(*std::move(any.best));
  }

  void Take(Selection selection) {
    std::int64_t value = 0;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      value += model_.ValueOf(j, selection.times[j]);
    }
    if (outcome_.best.has_value() && value <= outcome_.objective) return;
    outcome_.best = std::move(selection);
    outcome_.objective = value;
    Report();
  }

  void Report() {
    if (budget_->report) budget_->report(outcome_.objective, outcome_.bound);
  }

  std::int64_t CostOfAll(const Prices& prices) const {
    std::int64_t cost = 0;
    for (std::size_t k = 0; k < prices.size(); ++k) {
      cost += prices[k] * model_.free()[k];
    }
    return cost;
  }

  // The prices that bound the sum best.
  void FindPrices() {
    double whole = 0;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      whole += static_cast<double>(model_.ValueOf(j, model_.alone(j)));
    }
    Master master(model_.jobs(), model_.free(), true, 16 * whole);
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      Learn(j, outcome_.best->counts[j], &master);
    }
    // Prices are far off at first, so a good choice of each job does; once that
    // improves nothing, the best one is needed.
    bool exact = false;
    for (int round = 0; round < kMostPricings; ++round) {
      if (budget_->stop.stop_requested()) return;
      master.Optimize();
      Prices prices(model_.free().size());
      for (std::size_t k = 0; k < prices.size(); ++k) {
        prices[k] = std::llround(master.prices()[k]);
      }
      std::int64_t bound = CostOfAll(prices);
      std::vector<std::int64_t> merits(model_.jobs());
      bool added = false;
      for (std::size_t j = 0; j < model_.jobs(); ++j) {
        const auto least = std::llround(master.WorthOf(j)) - 1;
        const Best best =
            BestOf(j, prices, least, exact ? kMostWalkSteps : kQuickSteps);
        merits[j] = best.bound;
        bound += best.bound;
        if (!best.option.has_value() || best.merit <= least + 16) continue;
        Learn(j, best.option->counts, &master);
        added = true;
      }
      if (prices_.empty() || bound <= outcome_.bound) {
        if (!prices_.empty()) others_.push_back(prices_);
        prices_ = std::move(prices);
        merits_ = std::move(merits);
        price_bound_ = bound;
        outcome_.bound = std::min(outcome_.bound, bound);
        Report();
      }
      if (!added && exact) break;
      exact = exact || !added;
    }
  }

  // Takes a packing that was found.
  void TakePacked(const PackingProblem& packing, const Packing& packed) {
    if (packed.options.empty()) return;
    Selection selection;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      selection.counts.push_back(packing.jobs[j][packed.options[j]].counts);
      selection.times.push_back(
          *model_.curve(j).LeastTime(selection.counts.back()));
    }
    Take(std::move(selection));
  }

  // Adds the prices to `packing`, runs it, and takes what it finds. Returns
  // whether that is the best packing.
  bool RunPacking(PackingProblem* packing) {
    packing->free = model_.free();
    packing->prices.push_back(prices_);
    // A better packing leaves fewer options to the next search.
    for (const std::size_t states : {kStatesOfTry, kStatesOfProof}) {
      const Packing packed =
          PackHalves(*packing, states, &budget_->nodes, budget_->stop);
      TakePacked(*packing, packed);
      if (packed.complete || Ended()) return packed.complete;
      packing->at_least = std::max(packing->at_least, outcome_.objective + 1);
    }
    for (std::size_t i = others_.size();
         i-- > 0 && packing->prices.size() <= kFurtherPrices;) {
      packing->prices.push_back(others_[i]);
    }
    const Packing packed = Pack(*packing, &budget_->nodes, budget_->stop);
    TakePacked(*packing, packed);
    return packed.complete;
  }

  bool Ended() const {
    return budget_->stop.stop_requested() || budget_->nodes <= 0;
  }

  // A good one of the packings of the choices that led to the prices.
  void PackKnown() {
    if (prices_.empty()) return;
    PackingProblem packing;
    packing.free = model_.free();
    packing.prices.push_back(prices_);
    packing.jobs = known_;
    packing.at_least = outcome_.objective + 1;
    TakePacked(packing, PackHalves(packing, kStatesOfTry, &budget_->nodes,
                                   budget_->stop));
  }

  // The options of a job that lose at most `loss`; false if there are more.
  bool OptionsWithin(std::size_t job, std::int64_t loss,
                     std::vector<Option>* options) const {
    const Curve& curve = model_.curve(job);
    const std::int64_t least = merits_[job] - loss;
    std::vector<Choice> choices;
    bool complete = true;
    for (const Curve::Group& group : curve.groups()) {
      const auto value_of = [&](std::int64_t time) {
        return model_.ValueOf(job, time + group.extra);
      };
      const auto& times = curve.times();
      for (std::size_t last = times.size(); last-- > 0;) {
        if (MeritBound(job, group, last, prices_) < least) continue;
        if (budget_->stop.stop_requested()) return false;
        // Times of about the same value at once.
        std::size_t first = last;
        while (first > 0 &&
               value_of(times[first - 1]) - value_of(times[last]) <= loss) {
          --first;
        }
        choices.clear();
        complete = curve.AddChoicesOfGroup(group, first, last, prices_,
                                           value_of(times[first]) - least,
                                           kMostOptions, &choices) &&
                   complete;
        for (const Choice& choice : choices) {
          const std::int64_t value = value_of(choice.time);
          if (value - choice.cost < least) continue;
          options->push_back({choice.counts, value});
        }
        if (options->size() > 4 * kMostOptions) return false;
        last = first;
      }
    }
    // Of equal devices only the best counts.
    std::sort(
        options->begin(), options->end(), [](const Option& a, const Option& b) {
          return a.counts != b.counts ? a.counts < b.counts : a.value > b.value;
        });
    options->erase(std::unique(options->begin(), options->end(),
                               [](const Option& a, const Option& b) {
                                 return a.counts == b.counts;
                               }),
                   options->end());
    return complete;
  }

  // An allotment that loses at most `loss` against the bound has only options
  // that lose as much or less. So once those are searched and the best
  // allotment loses no more, it is the best of all.
  void Deepen() {
    if (prices_.empty()) return;
    std::int64_t loss = std::max<std::int64_t>(price_bound_ / 4096, 1);
    while (outcome_.objective < outcome_.bound && !Ended()) {
      loss = std::min(loss, price_bound_ - outcome_.objective);
      PackingProblem packing;
      packing.at_least = std::max(price_bound_ - loss, outcome_.objective + 1);
      for (std::size_t j = 0; j < model_.jobs(); ++j) {
        auto& options = packing.jobs.emplace_back();
        if (!OptionsWithin(j, loss, &options)) return;
      }
      const std::int64_t floor = price_bound_ - loss;
      if (!RunPacking(&packing)) return;
      outcome_.bound =
          std::min(outcome_.bound, std::max(outcome_.objective, floor - 1));
      Report();
      if (outcome_.objective >= floor) return;
      loss *= 2;
    }
  }

  const Model& model_;
  Budget* budget_;
  std::vector<std::vector<Option>> known_;  // choices of each job
  Prices prices_;
  std::vector<std::int64_t> merits_;  // of each job at most, at prices_
  std::int64_t price_bound_ = 0;      // what merits and prices sum to
  std::vector<Prices> others_;
  Outcome outcome_;
};

}  // namespace

Outcome SearchThroughput(const Model& model, Budget* budget) {
  return Throughput(model, budget).Run();
}

}  // namespace ucudnn::allot_internal
