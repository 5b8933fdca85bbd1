#include "solver/memory/best/schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ucudnn {
namespace {

// Fetches that others may overtake at one boundary: a bound on how many are
// looked at.
constexpr int kMostSkipped = 8;

std::size_t At(int index) { return static_cast<std::size_t>(index); }

}  // namespace

Scheduler::Scheduler(const RoundProgram& program, const TaskOptions& options)
    : program_(program),
      options_(options),
      duplex_(program.round->graph->device.duplex),
      by_until_(program.gaps.size()) {
  std::iota(by_until_.begin(), by_until_.end(), std::size_t{0});
  const std::vector<BlockGap>& gaps = program.gaps;
  std::ranges::stable_sort(by_until_, {},
                           [&](std::size_t g) { return gaps[g].until; });
  const DeviceModel& device = program.round->graph->device;
  for (const BlockGap& gap : gaps) {
    const Bytes bytes = program.round->size[gap.block];
    offload_time_.push_back(device.OffloadTime(bytes).count());
    fetch_time_.push_back(device.PrefetchTime(bytes).count());
  }
}

RoundChoices Scheduler::NoChoices() const {
  RoundChoices choices;
  for (const BlockGap& gap : program_.gaps) choices.moved.push_back(gap.forced);
  choices.most.resize(program_.tasks.size(),
                      std::numeric_limits<std::uint32_t>::max());
  choices.deferred.resize(program_.gaps.size());
  choices.overtaking.resize(program_.gaps.size());
  return choices;
}

bool Scheduler::ChooseOptions(const RoundChoices& choices,
                              std::int64_t capacity, RoundSchedule* schedule) {
  spare_.assign(program_.tasks.size() + 1, 0);
  for (std::size_t g = 0; g < program_.gaps.size(); ++g) {
    if (!choices.moved[g]) continue;
    const BlockGap& gap = program_.gaps[g];
    const std::int64_t size = program_.size[gap.block];
    spare_[At(gap.after + 1)] += size;
    spare_[At(gap.until)] -= size;
  }
  schedule->option.resize(program_.tasks.size());
  std::int64_t away = 0;
  for (std::size_t place = 0; place < program_.tasks.size(); ++place) {
    away += spare_[place];
    const std::int64_t room =
        capacity - program_.resident - program_.live[place] + away;
    const std::vector<TaskOption>& options = Options(place);
    std::size_t option = std::min<std::size_t>(
        options.size(), choices.most[place] + std::size_t{1});
    while (option > 0 && options[option - 1].workspace > room) --option;
    if (option == 0) return false;
    schedule->option[place] = static_cast<std::uint32_t>(option - 1);
    spare_[place] = room - options[option - 1].workspace;
  }
  return true;
}

int Scheduler::LastWithout(std::int64_t size, int first, int last) const {
  for (int place = last - 1; place >= first; --place) {
    if (spare_[At(place)] < size) return place;
  }
  return -1;
}

void Scheduler::Schedule(const RoundChoices& choices, std::int64_t capacity,
                         RoundSchedule* schedule) {
  const std::vector<char>& moved = choices.moved;
  schedule->fits = ChooseOptions(choices, capacity, schedule);
  if (!schedule->fits) return;
  const std::vector<BlockGap>& gaps = program_.gaps;
  const int end = program_.end();
  schedule->moved = 0;
  schedule->freed.assign(gaps.size(), -1);
  schedule->fetched.assign(gaps.size(), -1);
  copied_.assign(program_.size.size(), 0);
  copy_of_.assign(program_.size.size(), -1);
  schedule->copies.clear();
  arrives_.assign(program_.tasks.size() + 1, 0);
  leaving_.clear();

  std::int64_t compute = 0;
  std::int64_t links[2] = {0, 0};  // to the host, from the host
  std::int64_t& out = links[0];
  std::int64_t& in = duplex_ ? links[1] : links[0];
  fetches_.clear();
  std::size_t overtaking_end = 0;  // none of fetches_ overtakes from here on
  for (const std::size_t g : by_until_) {
    if (!moved[g] || gaps[g].until >= end) continue;
    fetches_.push_back(g);
    if (choices.overtaking[g]) overtaking_end = fetches_.size();
  }
  offloads_.clear();
  for (std::size_t g = 0; g < gaps.size(); ++g) {
    if (!moved[g]) continue;
    offloads_.emplace_back(
        std::min(gaps[g].written + choices.deferred[g], gaps[g].after), g);
  }
  std::ranges::sort(offloads_);
  std::size_t next_out = 0;
  std::size_t next_in = 0;
  blocked_until_.assign(gaps.size(), 0);

  const auto start_copy = [&](std::size_t g, int place) {
    const BlockGap& gap = gaps[g];
    if (gap.forced && gap.after < 0) {
      schedule->freed[g] = 0;  // it was never there
      return;
    }
    if (gap.written >= 0 && copy_of_[gap.block] != gap.written) {
      out = std::max(out, compute) + offload_time_[g];
      copied_[gap.block] = out;
      copy_of_[gap.block] = gap.written;
      schedule->moved += program_.size[gap.block];
      schedule->copies.push_back({g, place});
    }
    leaving_.push_back({g, gap.written < 0 ? 0 : copied_[gap.block]});
  };
  // Starts the copies of what can leave once the task at `place` has ended.
  const auto start_copies = [&](int place) {
    for (; next_out < offloads_.size() && offloads_[next_out].first <= place;
         ++next_out) {
      start_copy(offloads_[next_out].second, place);
    }
  };
  // Frees what has left and is no longer used at boundary `k`, then waits for
  // as much of what is leaving as must be gone.
  const auto free_blocks = [&](int k) {
    std::int64_t staying = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      const std::size_t g = leaving_[i].gap;
      if (gaps[g].until == k && k < end) {
        // Needed again before it was gone: it stays, once the copy has ended.
        schedule->freed[g] = schedule->fetched[g] = gaps[g].until;
        arrives_[At(k)] = std::max(arrives_[At(k)], leaving_[i].end);
        continue;
      }
      if (gaps[g].after < k && leaving_[i].end <= compute) {
        schedule->freed[g] = k;
        continue;
      }
      if (gaps[g].after < k) staying += program_.size[gaps[g].block];
      leaving_[kept++] = leaving_[i];
    }
    leaving_.resize(kept);
    if (k < end && staying <= spare_[At(k)]) return staying;
    for (const Leaving& leaving : leaving_) {
      const BlockGap& gap = gaps[leaving.gap];
      if (gap.after >= k) continue;
      compute = std::max(compute, leaving.end);
      schedule->freed[leaving.gap] = k;
      staying -= program_.size[gap.block];
      if (k < end && staying <= spare_[At(k)]) break;
    }
    std::erase_if(leaving_, [&](const Leaving& leaving) {
      return schedule->freed[leaving.gap] >= 0;
    });
    return staying;
  };
  const auto fetch = [&](int k, std::int64_t staying, std::int64_t task_time) {
    int skipped = 0;
    bool waiting = false;  // an earlier fetch cannot start yet
    for (std::size_t i = next_in; i < fetches_.size(); ++i) {
      if (waiting && i >= overtaking_end) return;
      const std::size_t g = fetches_[i];
      const BlockGap& gap = gaps[g];
      if (schedule->fetched[g] >= 0) {
        if (i == next_in) ++next_in;
        continue;
      }
      if (gap.after >= k || (waiting && !choices.overtaking[g])) {
        if (++skipped > kMostSkipped) return;
        waiting = true;
        continue;
      }
      const std::int64_t size = program_.size[gap.block];
      if (gap.until > k) {
        if (in > std::max(compute, arrives_[At(k)]) + task_time) return;
        if (schedule->freed[g] < 0 || k < blocked_until_[g] ||
            spare_[At(k)] - staying < size) {
          waiting = true;
          continue;
        }
        const int last = LastWithout(size, k, gap.until);
        if (last >= 0) {
          blocked_until_[g] = last + 1;
          waiting = true;
          continue;
        }
      }
      in = std::max(in, compute) + fetch_time_[g];
      schedule->fetched[g] = k;
      schedule->moved += size;
      arrives_[At(gap.until)] = std::max(arrives_[At(gap.until)], in);
      for (int place = k; place < gap.until; ++place) {
        spare_[At(place)] -= size;
      }
    }
  };

  start_copies(-1);
  for (int k = 0; k < end; ++k) {
    const std::int64_t staying = free_blocks(k);
    const std::int64_t time = Options(At(k))[schedule->option[At(k)]].time;
    fetch(k, staying, time);
    compute = std::max(compute, arrives_[At(k)]) + time;
    start_copies(k);
  }
  free_blocks(end);
  schedule->time = std::max({compute, links[0], links[1]});
}

}  // namespace ucudnn
