#include "solver/assign/ties.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <utility>

namespace ucudnn::assign_internal {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max() / 2;

// Least times by net number of GPUs out (from `least_out` on) and by amount
// given back.
class Layer {
 public:
  Layer(std::int64_t least_out, std::int64_t most_out, std::int64_t excess)
      : least_out_(least_out),
        most_out_(most_out),
        width_(static_cast<std::size_t>(excess) + 1),
        times_(static_cast<std::size_t>(most_out - least_out + 1) * width_,
               kNone) {}

  std::int64_t* Row(std::int64_t out) {
    return times_.data() + static_cast<std::size_t>(out - least_out_) * width_;
  }
  const std::int64_t* Row(std::int64_t out) const {
    return times_.data() + static_cast<std::size_t>(out - least_out_) * width_;
  }
  bool HasRow(std::int64_t out) const {
    return out >= least_out_ && out <= most_out_;
  }
  // row(to) = min(row(to), row(from) of `other` shifted by given, plus time)
  void Relax(std::int64_t to, const Layer& other, std::int64_t from,
             std::int64_t given, std::int64_t time) {
    if (!other.HasRow(from)) return;
    const auto shift = static_cast<std::size_t>(given);
    std::int64_t* const at = Row(to) + shift;
    const std::int64_t* const old = other.Row(from);
    for (std::size_t i = 0; i + shift < width_; ++i) {
      at[i] = std::min(at[i], old[i] + time);
    }
  }
  void ClampToNone() {
    for (std::int64_t& time : times_) time = std::min(time, kNone);
  }

 private:
  std::int64_t least_out_;
  std::int64_t most_out_;
  std::size_t width_;
  std::vector<std::int64_t> times_;
};

}  // namespace

std::vector<Ties::Ranked> Ties::Rank(std::int64_t time) const {
  std::vector<Ranked> ranked;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const std::int64_t largest = kinds_[k].LargestBatchWithin(time);
    if (largest > 0) ranked.push_back({k, largest});
  }
  std::ranges::stable_sort(ranked, std::ranges::greater(), &Ranked::largest);
  return ranked;
}

std::optional<std::int64_t> Ties::FewestForMost(std::int64_t time) const {
  std::int64_t left = batch_;
  std::int64_t gpus = 0;
  for (const Ranked& one : Rank(time)) {
    const std::int64_t need = (left + one.largest - 1) / one.largest;
    const std::int64_t taken = std::min(need, kinds_[one.kind].count());
    gpus += taken;
    left -= taken * one.largest;
    if (left <= 0) return gpus;
  }
  return std::nullopt;
}

std::optional<std::int64_t> Ties::LeastTimeForMost(std::int64_t gpus) const {
  const auto enough = [&](std::int64_t time) {
    std::int64_t left = batch_;
    std::int64_t free = gpus;
    for (const Ranked& one : Rank(time)) {
      const std::int64_t taken = std::min(free, kinds_[one.kind].count());
      left -= taken * one.largest;
      free -= taken;
    }
    return left <= 0 && free == 0;
  };
  return LeastEnough(kinds_, enough);
}

std::vector<Ties::Option> Ties::Options(const GpuKind& kind, std::int64_t time,
                                        std::int64_t from,
                                        std::int64_t excess) const {
  std::vector<Option> options;
  for (std::size_t i = kind.LargestWithin(time); i-- > 0;) {
    const BatchCost& cost = kind.costs[i];
    const std::int64_t given = from - cost.batch.count();
    if (given > excess) break;
    if (cost.time.count() > time) continue;
    options.push_back({given, cost.time.count(), cost.batch.count()});
  }
  return options;
}

Result<std::optional<std::vector<std::int64_t>>> Ties::Solve(
    std::int64_t time, std::int64_t gpus) {
  using Found = std::optional<std::vector<std::int64_t>>;
  const std::vector<Ranked> ranked = Rank(time);
  // The kind of the N-th GPU, how many of it are among the N, and the excess.
  std::int64_t excess = -batch_;
  std::int64_t inside = 0;  // of the middle kind
  std::size_t middle = 0;
  std::int64_t left = gpus;
  for (; middle < ranked.size(); ++middle) {
    const std::int64_t count = kinds_[ranked[middle].kind].count();
    inside = std::min(left, count);
    excess += inside * ranked[middle].largest;
    left -= inside;
    if (left == 0) break;
  }
  if (left > 0 || excess < 0) return Found();
  const std::int64_t v = ranked[middle].largest;
  const GpuKind& middle_kind = kinds_[ranked[middle].kind];

  // How many of the N may be left out, and how many others may take part,
  // before even the cheapest ones give back more than the excess.
  std::int64_t above = 0;
  std::int64_t below = 0;
  for (std::size_t r = 0; r < ranked.size(); ++r) {
    if (r < middle) above += kinds_[ranked[r].kind].count();
    if (r > middle) below += kinds_[ranked[r].kind].count();
  }
  const auto affordable = [&](std::size_t r, std::int64_t price,
                              std::int64_t* room) {
    const std::int64_t count = kinds_[ranked[r].kind].count();
    const std::int64_t taken =
        price == 0 ? count : std::min(count, *room / price);
    *room -= taken * price;
    return taken;
  };
  std::int64_t most_out = 0;
  std::int64_t room = excess;
  for (std::size_t r = middle; r-- > 0;) {
    most_out += affordable(r, ranked[r].largest - v, &room);
  }
  most_out = std::min(most_out, below + middle_kind.count() - inside);
  std::int64_t most_in = 0;
  room = excess;
  for (std::size_t r = middle + 1; r < ranked.size(); ++r) {
    most_in += affordable(r, v - ranked[r].largest, &room);
  }
  most_in = std::min(most_in, above + inside);
  // The middle kind cannot make up for more.
  const std::int64_t least_out = -std::min(most_in, inside);
  const std::int64_t rows = most_out - least_out + 1;

  const auto spend = [&](std::int64_t copies, std::int64_t options,
                         std::int64_t of_rows) {
    const __int128 steps =
        static_cast<__int128>(copies) * (options + 1) * of_rows * (excess + 1);
    if (steps > steps_left_) {
      steps_left_ = 0;
      return false;
    }
    steps_left_ -= static_cast<std::int64_t>(steps);
    return true;
  };
  const auto exhausted = [] {
    return Fail(Code::kResourceExhausted, "too many ties to be resolved");
  };

  // GPUs above and below the middle kind, one after the other.
  struct Step {
    std::size_t ranked = 0;
    bool above = false;
  };
  std::vector<Step> steps;
  std::vector<std::vector<Option>> options(ranked.size());
  std::vector<Layer> layers;
  layers.emplace_back(least_out, most_out, excess);
  layers.back().Row(0)[0] = 0;
  for (std::size_t r = 0; r < ranked.size(); ++r) {
    if (r == middle) continue;
    const GpuKind& kind = kinds_[ranked[r].kind];
    const bool is_above = r < middle;
    if (!is_above && v - ranked[r].largest > excess) break;
    if (!is_above && most_in == 0) break;
    options[r] = Options(kind, time, is_above ? ranked[r].largest : v, excess);
    if (!spend(kind.count(), std::ssize(options[r]), rows)) return exhausted();
    for (std::int64_t i = 0; i < kind.count(); ++i) {
      const Layer& old = layers.back();
      Layer next(least_out, most_out, excess);
      for (std::int64_t out = least_out; out <= most_out; ++out) {
        if (is_above) {
          for (const Option& o : options[r]) {
            next.Relax(out, old, out, o.given, o.time);
          }
          const std::int64_t price = ranked[r].largest - v;
          if (price <= excess) next.Relax(out, old, out - 1, price, 0);
        } else {
          next.Relax(out, old, out, 0, 0);
          for (const Option& o : options[r]) {
            next.Relax(out, old, out + 1, o.given, o.time);
          }
        }
      }
      next.ClampToNone();
      layers.push_back(std::move(next));
      steps.push_back({r, is_above});
    }
  }

  // The middle kind supplies the missing GPUs.
  const std::vector<Option> middle_options =
      Options(middle_kind, time, v, excess);
  const std::int64_t most_of_middle =
      std::min(middle_kind.count(), inside + most_out);
  if (!spend(most_of_middle, std::ssize(middle_options), 1)) {
    return exhausted();
  }
  std::vector<Layer> of_middle;
  of_middle.emplace_back(0, 0, excess);
  of_middle.back().Row(0)[0] = 0;
  for (std::int64_t i = 0; i < most_of_middle; ++i) {
    Layer next(0, 0, excess);
    for (const Option& o : middle_options) {
      next.Relax(0, of_middle.back(), 0, o.given, o.time);
    }
    next.ClampToNone();
    of_middle.push_back(std::move(next));
  }

  std::int64_t best = kNone;
  std::int64_t best_out = 0;
  std::int64_t best_given = 0;
  for (std::int64_t out = least_out; out <= most_out; ++out) {
    const std::int64_t taken = inside + out;
    if (taken > middle_kind.count()) break;
    const std::int64_t* others = layers.back().Row(out);
    const std::int64_t* own = of_middle[static_cast<std::size_t>(taken)].Row(0);
    for (std::int64_t given = 0; given <= excess; ++given) {
      const std::int64_t total = others[given] + own[excess - given];
      if (total < best ||
          (total == best && std::abs(out) < std::abs(best_out))) {
        best = total;
        best_out = out;
        best_given = given;
      }
    }
  }
  if (best >= kNone) return Found();

  // Backwards: which option led to each state.
  std::vector<std::vector<std::int64_t>> batches(kinds_.size());
  std::int64_t given = excess - best_given;
  for (std::int64_t i = inside + best_out; i > 0; --i) {
    const Layer& old = of_middle[static_cast<std::size_t>(i) - 1];
    const std::int64_t now =
        of_middle[static_cast<std::size_t>(i)].Row(0)[given];
    const auto o = std::ranges::find_if(middle_options, [&](const Option& x) {
      return x.given <= given && old.Row(0)[given - x.given] < kNone &&
             old.Row(0)[given - x.given] + x.time == now;
    });
    UCUDNN_CHECK(o != middle_options.end());
    batches[ranked[middle].kind].push_back(o->batch);
    given -= o->given;
  }
  given = best_given;
  std::int64_t out = best_out;
  for (std::size_t s = steps.size(); s-- > 0;) {
    const auto [r, is_above] = steps[s];
    const Layer& old = layers[s];
    const std::int64_t now = layers[s + 1].Row(out)[given];
    // The GPU is left out, or takes one of the options.
    const std::int64_t price = is_above ? ranked[r].largest - v : 0;
    const std::int64_t out_before = is_above ? out - 1 : out;
    if (price <= given && old.HasRow(out_before) &&
        old.Row(out_before)[given - price] == now) {
      given -= price;
      out = out_before;
      continue;
    }
    const std::int64_t in_before = is_above ? out : out + 1;
    const auto o = std::ranges::find_if(options[r], [&](const Option& x) {
      return x.given <= given && old.HasRow(in_before) &&
             old.Row(in_before)[given - x.given] < kNone &&
             old.Row(in_before)[given - x.given] + x.time == now;
    });
    UCUDNN_CHECK(o != options[r].end());
    batches[ranked[r].kind].push_back(o->batch);
    given -= o->given;
    out = in_before;
  }
  UCUDNN_CHECK(given == 0 && out == 0);
  std::vector<std::int64_t> all;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    batches[k].resize(static_cast<std::size_t>(kinds_[k].count()), 0);
    std::sort(batches[k].rbegin(), batches[k].rend());
    all.insert(all.end(), batches[k].begin(), batches[k].end());
  }
  return Found(std::move(all));
}

}  // namespace ucudnn::assign_internal
