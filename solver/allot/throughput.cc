// The largest sum of weighted shares, by rising loss against prices.

#include <algorithm>
#include <cmath>
#include <utility>

#include "solver/allot/master.h"
#include "solver/allot/model.h"
#include "solver/allot/packing.h"

namespace ucudnn::allot_internal {
namespace {

constexpr int kMostPricings = 300;
constexpr std::size_t kMostOptions = 50'000;  // of a job in one packing
constexpr std::size_t kFurtherPrices = 3;
constexpr std::int64_t kNodesForFirst = 200'000;

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
    std::int64_t merit = 0;  // no choice has more
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

  struct Place {
    std::int64_t merit = 0;
    const Curve::Group* group = nullptr;
    std::size_t time = 0;
  };

  // Groups and times that may have a merit of at least `least`, best first.
  std::vector<Place> PlacesWith(std::size_t job, const Prices& prices,
                                std::int64_t least) const {
    std::vector<Place> places;
    const Curve& curve = model_.curve(job);
    for (const Curve::Group& group : curve.groups()) {
      for (std::size_t i = 0; i < curve.times().size(); ++i) {
        const std::int64_t merit = MeritBound(job, group, i, prices);
        if (merit >= least) places.push_back({merit, &group, i});
      }
    }
    std::stable_sort(
        places.begin(), places.end(),
        [](const Place& a, const Place& b) { return a.merit > b.merit; });
    return places;
  }

  // The choice of the most merit above `least`.
  Best BestOf(std::size_t job, const Prices& prices, std::int64_t least) const {
    Best best;
    best.merit = least;
    const Curve& curve = model_.curve(job);
    for (const Place& place : PlacesWith(job, prices, least)) {
      if (place.merit <= best.merit) break;
      if (budget_->stop.stop_requested()) {
        best.merit = place.merit;
        break;
      }
      const std::int64_t value =
          model_.ValueOf(job, curve.times()[place.time] + place.group->extra);
      const auto cheapest = curve.CheapestOfGroup(*place.group, place.time,
                                                  prices, value - best.merit);
      if (cheapest.choice.has_value()) {
        best.option = Option{cheapest.choice->counts, value};
      }
      best.merit = std::max(best.merit, value - cheapest.bound);
    }
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
        const Best best = BestOf(j, prices, least);
        merits[j] = best.merit;
        bound += best.merit;
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
      if (!added) break;
    }
  }

  // Adds the prices to `packing`, runs it, and takes what it finds.
  Packing RunPacking(PackingProblem* packing, std::int64_t most_nodes) {
    packing->free = model_.free();
    packing->prices.push_back(prices_);
    for (std::size_t i = others_.size();
         i-- > 0 && packing->prices.size() <= kFurtherPrices;) {
      packing->prices.push_back(others_[i]);
    }
    std::int64_t nodes = std::min(budget_->nodes, most_nodes);
    const std::int64_t before = nodes;
    Packing packed = Pack(*packing, &nodes, budget_->stop);
    budget_->nodes -= before - std::max<std::int64_t>(nodes, 0);
    if (packed.options.empty()) return packed;
    Selection selection;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      selection.counts.push_back(packing->jobs[j][packed.options[j]].counts);
      selection.times.push_back(
          *model_.curve(j).LeastTime(selection.counts.back()));
    }
    Take(std::move(selection));
    return packed;
  }

  // The best of the choices that led to the prices.
  void PackKnown() {
    if (prices_.empty()) return;
    PackingProblem packing;
    packing.jobs = known_;
    packing.at_least = outcome_.objective + 1;
    RunPacking(&packing, kNodesForFirst);
  }

  // The options of a job that lose at most `loss`; false if there are more.
  bool OptionsWithin(std::size_t job, std::int64_t loss,
                     std::vector<Option>* options) const {
    const Curve& curve = model_.curve(job);
    const std::int64_t least = merits_[job] - loss;
    std::vector<Choice> choices;
    bool complete = true;
    for (const Place& place : PlacesWith(job, prices_, least)) {
      if (budget_->stop.stop_requested()) return false;
      const std::int64_t value =
          model_.ValueOf(job, curve.times()[place.time] + place.group->extra);
      choices.clear();
      complete =
          curve.AddChoicesOfGroup(*place.group, place.time, prices_,
                                  value - least, kMostOptions, &choices) &&
          complete;
      for (const Choice& choice : choices) {
        options->push_back({choice.counts, value});
      }
      if (options->size() > 4 * kMostOptions) return false;
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
    while (outcome_.objective < outcome_.bound && budget_->nodes > 0 &&
           !budget_->stop.stop_requested()) {
      loss = std::min(loss, price_bound_ - outcome_.objective);
      PackingProblem packing;
      packing.at_least = std::max(price_bound_ - loss, outcome_.objective + 1);
      for (std::size_t j = 0; j < model_.jobs(); ++j) {
        auto& options = packing.jobs.emplace_back();
        if (!OptionsWithin(j, loss, &options)) return;
      }
      const std::int64_t floor = price_bound_ - loss;
      const Packing packed = RunPacking(&packing, budget_->nodes);
      if (!packed.complete) return;
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
