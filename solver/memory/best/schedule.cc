#include "solver/memory/best/schedule.h"

#include <algorithm>
#include <numeric>

namespace ucudnn {
namespace {

// Fetches of gaps that have not begun which others may overtake: a bound on
// how many are looked at.
constexpr int kMostSkipped = 4;

std::size_t At(int index) { return static_cast<std::size_t>(index); }

}  // namespace

Scheduler::Scheduler(const RoundProgram& program, const TaskOptions& options)
    : program_(program),
      options_(options),
      duplex_(program.round->graph->device.duplex),
      by_written_(program.gaps.size()) {
  std::iota(by_written_.begin(), by_written_.end(), std::size_t{0});
  by_until_ = by_written_;
  const std::vector<BlockGap>& gaps = program.gaps;
  std::stable_sort(by_written_.begin(), by_written_.end(),
                   [&](std::size_t a, std::size_t b) {
                     return gaps[a].written < gaps[b].written;
                   });
  std::stable_sort(by_until_.begin(), by_until_.end(),
                   [&](std::size_t a, std::size_t b) {
                     return gaps[a].until < gaps[b].until;
                   });
  const DeviceModel& device = program.round->graph->device;
  for (const BlockGap& gap : gaps) {
    const Bytes bytes = program.round->size[gap.block];
    offload_time_.push_back(device.OffloadTime(bytes).count());
    fetch_time_.push_back(device.PrefetchTime(bytes).count());
  }
}

bool Scheduler::ChooseOptions(const std::vector<char>& moved,
                              std::int64_t capacity, RoundSchedule* schedule) {
  spare_.assign(program_.tasks.size() + 1, 0);
  for (std::size_t g = 0; g < program_.gaps.size(); ++g) {
    if (!moved[g]) continue;
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
    const std::vector<TaskOption>& options = options_.Of(program_.tasks[place]);
    std::size_t option = options.size();
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

void Scheduler::Schedule(const std::vector<char>& moved, std::int64_t capacity,
                         RoundSchedule* schedule) {
  schedule->fits = ChooseOptions(moved, capacity, schedule);
  if (!schedule->fits) return;
  const std::vector<BlockGap>& gaps = program_.gaps;
  const int end = program_.end();
  schedule->moved = 0;
  schedule->freed.assign(gaps.size(), -1);
  schedule->fetched.assign(gaps.size(), -1);
  copied_.assign(program_.size.size(), 0);
  copy_of_.assign(program_.size.size(), -1);
  left_.assign(gaps.size(), 0);
  arrives_.assign(program_.tasks.size() + 1, 0);
  leaving_.clear();

  std::int64_t compute = 0;
  std::int64_t links[2] = {0, 0};  // to the host, from the host
  std::int64_t& out = links[0];
  std::int64_t& in = duplex_ ? links[1] : links[0];
  fetches_.clear();
  for (const std::size_t g : by_until_) {
    if (moved[g] && gaps[g].until < end) fetches_.push_back(g);
  }
  std::size_t next_out = 0;
  std::size_t next_in = 0;
  std::size_t blocked = gaps.size();  // a fetch without memory
  int blocked_until = 0;              // before this boundary

  // Starts the copies of what was written at places up to `place`.
  const auto start_copies = [&](int place) {
    for (; next_out < by_written_.size(); ++next_out) {
      const std::size_t g = by_written_[next_out];
      const BlockGap& gap = gaps[g];
      if (gap.written > place) break;
      if (!moved[g]) continue;
      if (gap.forced && gap.after < 0) {
        schedule->freed[g] = 0;  // it was never there
        continue;
      }
      if (gap.written >= 0 && copy_of_[gap.block] != gap.written) {
        out = std::max(out, compute) + offload_time_[g];
        copied_[gap.block] = out;
        copy_of_[gap.block] = gap.written;
        schedule->moved += program_.size[gap.block];
      }
      left_[g] = gap.written < 0 ? 0 : copied_[gap.block];
      leaving_.push_back({g, left_[g]});
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
    for (std::size_t i = next_in; i < fetches_.size(); ++i) {
      const std::size_t g = fetches_[i];
      const BlockGap& gap = gaps[g];
      if (schedule->fetched[g] >= 0) {
        if (i == next_in) ++next_in;
        continue;
      }
      if (gap.after >= k) {
        if (++skipped > kMostSkipped) return;
        continue;
      }
      const std::int64_t size = program_.size[gap.block];
      if (gap.until > k) {
        if (schedule->freed[g] < 0 || in > compute + task_time ||
            (g == blocked && k < blocked_until) ||
            spare_[At(k)] - staying < size) {
          return;
        }
        const int last = LastWithout(size, k, gap.until);
        if (last >= 0) {
          blocked = g;
          blocked_until = last + 1;
          return;
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
    const std::int64_t time =
        options_.Of(program_.tasks[At(k)])[schedule->option[At(k)]].time;
    fetch(k, staying, time);
    compute = std::max(compute, arrives_[At(k)]) + time;
    start_copies(k);
  }
  free_blocks(end);
  schedule->time = std::max({compute, links[0], links[1]});
}

}  // namespace ucudnn
