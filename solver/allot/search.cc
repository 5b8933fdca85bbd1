// Both goals, by the same three steps. Symbols: docs/solver.md.
//
//   1. Prices: a linear programme over the choices known so far is solved, and
//      its duals are the prices of devices. At these prices each job's best
//      choice is added, and so on until no choice improves the optimum. Any
//      prices bound what a packing can be worth, by
//
//        sum_k p_k free_k + sum_j (largest merit of a choice of job j)
//
//      where a choice's merit is its value less the price of its devices.
//   2. Options: a packing worth `loss` less than the bound consists of choices
//      whose merit is at most `loss` below their job's largest. These are few.
//   3. Packing: an integer programme over the options.
//
// For the least share, a choice has no value, and must be within the time that
// a level leaves its job: the level can be had if there is a packing of value
// 0. The largest level is found by bisection over those that step times give.
// For throughput, a choice is worth the job's weighted share, and `loss`
// doubles until a packing loses no more.

#include <algorithm>
#include <cmath>
#include <utility>

#include "solver/allot/model.h"
#include "solver/allot/programme.h"

namespace ucudnn::allot_internal {
namespace {

// What all free devices cost together, about, where choices have no value:
// chosen so that rounding a price to an integer is a part in 10^9.
constexpr double kPriceScale = 4294967296.0;
// Chosen so that pricing ends even if CLP's rounding goes on improving.
constexpr int kMostPricings = 300;
// Steps of a walk at first prices, and the part by which the values may be
// higher of the times that one search for a cheap choice covers. When each time
// was searched to the end, that took 1.6 s of the 1.9 of allot_bench's row
// 64, 6, 16 with batch 1024, which now takes 0.2 (docs/allocation.md).
constexpr std::int64_t kQuickSteps = 100;
constexpr std::int64_t kPartOfValue = 8;
// What differs by rounding alone improves nothing.
constexpr std::int64_t kRounding = 16;
// Of a job in one packing: chosen so that a packing fits into memory.
constexpr std::size_t kMostOptions = 50'000;
// What a try leaves undecided is tried again with so many times the steps.
// Chosen so that a hard level takes a tenth of the default limit at first.
constexpr std::int64_t kStepsOfOneTry = 1'000'000;
constexpr int kGrowth = 8;

enum class Answer { kYes, kNo, kUnknown };

struct Priced {
  Answer fits = Answer::kUnknown;  // kNo is proven; kYes is for fractions
  Prices prices;
  std::vector<std::int64_t> merits;  // of each job at most
  std::int64_t bound = kMaxCount;    // of a packing's value
};

class Search {
 public:
  Search(const Model& model, AllotGoal goal, Budget* budget)
      : model_(model),
        budget_(budget),
        valued_(goal == AllotGoal::kThroughput),
        within_(model.jobs(), kMaxCount),
        known_(model.jobs()) {}

  Outcome LeastShare() {
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
    for (;; steps_of_one_try_ *= kGrowth) {
      Bisect();
      if (outcome_.objective >= outcome_.bound || budget_->Ended() ||
          steps_of_one_try_ >= budget_->nodes) {
        return std::move(outcome_);
      }
    }
  }

  Outcome Throughput() {
    Budget any = *budget_;
    any.any = true;
    any.report = nullptr;
    Outcome first = Search(model_, AllotGoal::kMaxMinShare, &any).LeastShare();
    budget_->nodes = any.nodes;
    outcome_.none = first.none;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      outcome_.bound += model_.ValueOf(j, model_.alone(j));
    }
    if (!first.best.has_value()) return std::move(outcome_);
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      Learn(j, first.best->counts[j]);
    }
    Take(*std::move(first.best));
    const Priced priced = PriceFor(false);
    if (priced.prices.empty()) return std::move(outcome_);
    outcome_.bound = std::min(outcome_.bound, priced.bound);
    Report();
    PackKnown(priced, outcome_.objective + 1);
    Deepen(priced);
    return std::move(outcome_);
  }

 private:
  std::int64_t ValueOf(std::size_t job, std::int64_t time) const {
    return valued_ ? model_.ValueOf(job, time) : 0;
  }

  // No choice within this time has more merit.
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
    return cost > 4e18 ? -kMaxCount
                       : ValueOf(job, curve.times()[time] + group.extra) -
                             static_cast<std::int64_t>(cost);
  }

  struct Best {
    std::optional<Counts> counts;
    std::int64_t merit = 0;
    std::int64_t bound = 0;  // no choice has more merit
  };

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
        return ValueOf(job, curve.times()[time] + group.extra);
      };
      const std::size_t end = curve.Within(within_[job] - group.extra);
      // Without values, less time is worth nothing.
      const std::size_t begin = valued_ || end == 0 ? 0 : end - 1;
      std::int64_t cost = 0;  // what the times to come cost at least
      for (std::size_t next = end; next > begin;) {
        const std::size_t time = --next;
        const std::int64_t value = value_at(time);
        if (value - cost <= best.merit ||
            MeritBound(job, group, time, prices) <= best.merit) {
          continue;
        }
        if (budget_->stop.stop_requested()) {
          best.bound = ValueOf(job, model_.alone(job));
          return best;
        }
        // If nothing is cheap enough for a somewhat lesser time, then nothing
        // is for all times between.
        std::size_t first = time;
        while (first > begin &&
               value_at(first - 1) <= value + value / kPartOfValue) {
          --first;
        }
        const auto cheapest = curve.CheapestOfGroup(
            group, time, prices, value_at(first) - best.merit, steps);
        cost = std::max(cost, cheapest.bound);
        next = first;
        if (cheapest.choice.has_value()) {
          next = curve.FirstHeld(cheapest.choice->counts, begin, time);
          const std::int64_t merit = value_at(next) - cheapest.choice->cost;
          if (merit > best.merit) {
            best.merit = merit;
            best.counts = cheapest.choice->counts;
          }
        }
        best.bound = std::max(best.bound, value_at(next) - cheapest.bound);
      }
    }
    best.bound = std::max(best.bound, best.merit);
    return best;
  }

  void Learn(std::size_t job, const Counts& counts) {
    const auto time = model_.curve(job).LeastTime(counts);
    UCUDNN_CHECK(time.has_value());
    known_[job].push_back({counts, 0, *time});
  }

  std::int64_t CostOfAll(const Prices& prices) const {
    std::int64_t cost = 0;
    for (std::size_t k = 0; k < prices.size(); ++k) {
      cost += prices[k] * model_.free()[k];
    }
    return cost;
  }

  // Adds what is known of each job, or its cheapest choice. kNo if a job has
  // none, kUnknown if none was found.
  Answer Fill(Master* master) {
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      const auto holds = [&](const Choice& choice) {
        return choice.time <= within_[j];
      };
      if (std::ranges::none_of(known_[j], holds)) {
        const Best cheapest = BestOf(j, Prices(model_.free().size(), 1),
                                     -kMaxCount, kMostWalkSteps);
        if (!cheapest.counts.has_value()) {
          return cheapest.bound == -kMaxCount ? Answer::kNo : Answer::kUnknown;
        }
        Learn(j, *cheapest.counts);
      }
      for (const Choice& known : known_[j]) {
        if (holds(known)) {
          master->Add(j, known.counts, ValueOf(j, known.time));
        }
      }
    }
    return Answer::kYes;
  }

  // The prices that bound best what packings within `within_` are worth. With
  // `quick`, only says whether fractions of choices fit.
  Priced PriceFor(bool quick) {
    Priced priced;
    double overload = kPriceScale;
    if (valued_) overload = 16 * static_cast<double>(outcome_.bound);
    Master master(model_.jobs(), model_.free(), valued_, overload);
    priced.fits = Fill(&master);
    if (priced.fits != Answer::kYes) return priced;
    // Prices are far off at first, so a good choice of each job does; once that
    // improves nothing, the best one is needed.
    bool exact = false;
    for (int round = 0; round < kMostPricings; ++round) {
      priced.fits = Answer::kUnknown;
      if (budget_->stop.stop_requested()) return priced;
      master.Optimize();
      priced.fits = Answer::kYes;
      if (quick && master.overload() <= 1 - 1e-9) return priced;
      Prices prices = master.prices();
      std::int64_t bound = CostOfAll(prices);
      std::vector<std::int64_t> merits;
      bool added = false;
      for (std::size_t j = 0; j < model_.jobs(); ++j) {
        const std::int64_t least = master.WorthOf(j) - 1;
        const Best best =
            BestOf(j, prices, least, exact ? kMostWalkSteps : kQuickSteps);
        merits.push_back(best.bound);
        bound += best.bound;
        if (!best.counts.has_value() || best.merit <= least + kRounding) {
          continue;
        }
        Learn(j, *best.counts);
        master.Add(j, *best.counts, ValueOf(j, known_[j].back().time));
        added = true;
      }
      if (bound < priced.bound) {
        priced.bound = bound;
        priced.prices = std::move(prices);
        priced.merits = std::move(merits);
      }
      if (bound < 0) priced.fits = Answer::kNo;
      if (bound < 0 || (!added && exact)) break;
      exact = exact || !added;
    }
    return priced;
  }

  // The options of a job that lose at most `loss`; false if there are more.
  bool OptionsWithin(std::size_t job, const Priced& priced, std::int64_t loss,
                     std::vector<Option>* options) const {
    const Curve& curve = model_.curve(job);
    const std::int64_t least = priced.merits[job] - loss;
    std::vector<Choice> choices;
    for (const Curve::Group& group : curve.groups()) {
      const auto value_at = [&](std::size_t time) {
        return ValueOf(job, curve.times()[time] + group.extra);
      };
      const std::size_t end = curve.Within(within_[job] - group.extra);
      const std::size_t begin = valued_ || end == 0 ? 0 : end - 1;
      for (std::size_t last = end; last-- > begin;) {
        if (MeritBound(job, group, last, priced.prices) < least) continue;
        if (budget_->stop.stop_requested()) return false;
        // Times of about the same value at once.
        std::size_t first = last;
        while (first > begin && value_at(first - 1) - value_at(last) <= loss) {
          --first;
        }
        choices.clear();
        if (!curve.AddChoicesOfGroup(group, first, last, priced.prices,
                                     value_at(first) - least, kMostOptions,
                                     &choices)) {
          return false;
        }
        for (const Choice& choice : choices) {
          const std::int64_t value = ValueOf(job, choice.time + group.extra);
          if (value - choice.cost < least) continue;
          options->push_back({choice.counts, value});
        }
        if (options->size() > kMostOptions) return false;
        last = first;
      }
    }
    // Of equal devices only the best counts.
    std::ranges::sort(*options, [](const Option& a, const Option& b) {
      return a.counts != b.counts ? a.counts < b.counts : a.value > b.value;
    });
    options->erase(std::unique(options->begin(), options->end(),
                               [](const Option& a, const Option& b) {
                                 return a.counts == b.counts;
                               }),
                   options->end());
    return true;
  }

  // The best packing, of at least `at_least`, of options that lose at most
  // `loss`, if there is one; takes it.
  Answer PackWithin(const Priced& priced, std::int64_t loss,
                    std::int64_t at_least) {
    PackingProblem packing;
    packing.at_least = at_least;
    bool complete = true;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      complete = OptionsWithin(j, priced, loss, &packing.jobs.emplace_back()) &&
                 complete;
    }
    if (budget_->Ended()) return Answer::kUnknown;
    const Answer answer = RunPacking(priced, &packing);
    return complete || (answer == Answer::kYes && !valued_) ? answer
                                                            : Answer::kUnknown;
  }

  // The same for the choices that led to the prices, of which the best packing
  // often is a good one.
  Answer PackKnown(const Priced& priced, std::int64_t at_least) {
    PackingProblem packing;
    packing.at_least = at_least;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      auto& options = packing.jobs.emplace_back();
      for (const Choice& choice : known_[j]) {
        if (choice.time > within_[j]) continue;
        options.push_back({choice.counts, ValueOf(j, choice.time)});
      }
    }
    return RunPacking(priced, &packing);
  }

  // kYes if there is a packing, and it is the best one or any will do.
  Answer RunPacking(const Priced& priced, PackingProblem* problem) {
    problem->free = model_.free();
    problem->prices = priced.prices;
    problem->any = !valued_;
    const Packing packed =
        Pack(*problem, valued_ ? budget_->nodes : steps_of_one_try_, budget_);
    if (packed.options.empty()) {
      return packed.complete ? Answer::kNo : Answer::kUnknown;
    }
    Selection selection;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      const Counts& counts = problem->jobs[j][packed.options[j]].counts;
      selection.counts.push_back(counts);
      selection.times.push_back(*model_.curve(j).LeastTime(counts));
    }
    Take(std::move(selection));
    return packed.complete || !valued_ ? Answer::kYes : Answer::kUnknown;
  }

  void Take(Selection selection) {
    std::int64_t least = kMaxCount;
    std::int64_t sum = 0;
    for (std::size_t j = 0; j < model_.jobs(); ++j) {
      least = std::min(least, model_.LevelOf(j, selection.times[j]));
      sum += model_.ValueOf(j, selection.times[j]);
    }
    const std::int64_t objective = valued_ ? sum : least;
    if (outcome_.best.has_value() && objective <= outcome_.objective) return;
    outcome_.best = std::move(selection);
    outcome_.objective = objective;
    Report();
  }

  void Report() {
    if (budget_->report) budget_->report(outcome_.objective, outcome_.bound);
  }

  // A level leaves each job a time.
  void SetLevel(std::int64_t level) {
    for (std::size_t j = 0; j < within_.size(); ++j) {
      within_[j] = model_.TimeFor(j, level);
    }
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

  // The largest level that prices do not rule out, up to `high`.
  std::int64_t BoundByPrices(std::int64_t high) {
    std::int64_t low = 0;
    while (low < high) {
      // In powers first: levels can be of any size.
      const std::int64_t middle = low == 0 ? std::max<std::int64_t>(high / 2, 1)
                                           : low + (high - low + 1) / 2;
      SetLevel(middle);
      const Answer fits = PriceFor(true).fits;
      if (fits == Answer::kUnknown) break;
      if (fits == Answer::kNo) {
        high = NextBelow(middle);
        if (middle == 1) break;
      } else {
        low = std::max(middle, SameAbove(middle));
      }
      if (high - low <= high >> 40) break;
    }
    return std::max(high, low);
  }

  // Also lowers the bound if there is no packing. With `quick`, only packs the
  // choices that led to the prices.
  Answer TryLevel(std::int64_t level, bool quick) {
    SetLevel(level);
    const Priced priced = PriceFor(false);
    Answer answer = priced.fits;
    if (answer == Answer::kYes) {
      if (PackKnown(priced, 0) == Answer::kYes) return answer;
      answer = quick ? Answer::kUnknown : PackWithin(priced, priced.bound, 0);
    }
    if (answer == Answer::kNo) {
      outcome_.bound = std::min(outcome_.bound, NextBelow(level));
      outcome_.bound = std::max(outcome_.bound, outcome_.objective);
      Report();
    }
    return answer;
  }

  // Falls from the bound in growing steps until a level has a packing.
  void FindFirst() {
    const std::int64_t top = outcome_.bound;
    std::int64_t step = std::max<std::int64_t>(top / 256, 1);
    for (std::int64_t level = top; level > 0 && !budget_->Ended(); step *= 2) {
      level = std::max<std::int64_t>(top - step, 1);
      if (TryLevel(level, level > 1) == Answer::kYes) return;
      if (level == 1) break;
    }
    outcome_.none = outcome_.bound == 0;
  }

  // Tries the bound itself first: with many jobs there mostly is a packing, and
  // fewer choices come into question than at any lower level.
  void Bisect() {
    std::int64_t high = outcome_.bound;
    std::int64_t level = high;
    while (outcome_.objective < high && !budget_->Ended()) {
      if (TryLevel(level, false) != Answer::kYes) high = NextBelow(level);
      level = outcome_.objective + (high - outcome_.objective + 1) / 2;
    }
  }

  // An allotment that loses at most `loss` against the bound has only options
  // that lose as much or less. So once those are searched and the best
  // allotment loses no more, it is the best of all.
  void Deepen(const Priced& priced) {
    std::int64_t loss = std::max<std::int64_t>(priced.bound / 4096, 1);
    while (outcome_.objective < outcome_.bound && !budget_->Ended()) {
      loss = std::min(loss, priced.bound - outcome_.objective);
      const std::int64_t floor = priced.bound - loss;
      if (PackWithin(priced, loss, std::max(floor, outcome_.objective + 1)) ==
          Answer::kUnknown) {
        return;
      }
      outcome_.bound =
          std::min(outcome_.bound, std::max(outcome_.objective, floor - 1));
      Report();
      if (outcome_.objective >= floor) return;
      loss *= 2;
    }
  }

  const Model& model_;
  Budget* budget_;
  bool valued_;
  std::vector<std::int64_t> within_;        // each job's time
  std::vector<std::vector<Choice>> known_;  // choices of each job
  std::int64_t steps_of_one_try_ = kStepsOfOneTry;
  Outcome outcome_;
};

}  // namespace

Outcome SearchAllotment(const Model& model, Budget* budget) {
  const AllotGoal goal = model.problem().goal;
  Search search(model, goal, budget);
  return goal == AllotGoal::kThroughput ? search.Throughput()
                                        : search.LeastShare();
}

}  // namespace ucudnn::allot_internal
