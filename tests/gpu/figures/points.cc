#include "tests/gpu/figures/points.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

#include "device/cudnn/graph_name.h"

namespace ucudnn::figures {

// The device with only some of a problem's algorithms.
class ScreenedDevice : public Device {
 public:
  explicit ScreenedDevice(Device& device) : device_(device) {}

  const DeviceInfo& info() const override { return device_.info(); }
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem&,
                                                BatchSize) override {
    return candidates_;
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    return device_.Prepare(problem, batch, algorithm);
  }
  Result<DeviceBuffer> Allocate(Bytes size) override {
    return device_.Allocate(size);
  }
  Status Upload(void* to, const void* from, Bytes size) override {
    return device_.Upload(to, from, size);
  }
  Status Download(void* to, const void* from, Bytes size) override {
    return device_.Download(to, from, size);
  }
  Status Fill(void* to, unsigned char byte, Bytes size) override {
    return device_.Fill(to, byte, size);
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    return device_.Time(work);
  }
  Status Synchronize() override { return device_.Synchronize(); }

  void Keep(std::vector<Candidate> candidates) {
    candidates_ = std::move(candidates);
  }

 private:
  Device& device_;
  std::vector<Candidate> candidates_;
};

namespace {

using Clock = std::chrono::steady_clock;

// An algorithm on so many images, known on `smaller` of them.
struct SizedPoint {
  Algorithm algorithm;
  std::int64_t images = 0;
  BatchSize smaller;
};

struct Run {
  Candidate candidate;
  double time = 0;  // ns
};

bool IsLegacy(const Algorithm& algorithm) {
  return !cudnn::IsEngineName(algorithm.name);
}

// The shortest time of the candidate's rivals with no more workspace.
std::optional<double> BestRival(const std::vector<Run>& runs,
                                const Candidate& candidate) {
  std::optional<double> best;
  for (const Run& run : runs) {
    if (run.candidate.workspace <= candidate.workspace &&
        (!IsLegacy(candidate.algorithm) || IsLegacy(run.candidate.algorithm))) {
      best = std::min(best.value_or(run.time), run.time);
    }
  }
  return best;
}

BatchSize SmallestBatch(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Bytes image(std::max(g.input_elements(), g.output_elements()) *
                    ElementBytes(problem.precision));
  std::int64_t n = 1;
  while (n < 8 && image * n < 3_MiB) n *= 2;
  return BatchSize(n);
}

Status Grow(Device& device, Bytes size, DeviceBuffer* buffer) {
  if (buffer->size() >= size) return {};
  buffer->Reset();
  UCUDNN_ASSIGN_OR_RETURN(*buffer, device.Allocate(size));
  // A moderate number in every precision.
  return device.Fill(buffer->data(), 0x3c, size);
}

}  // namespace

PointSource::PointSource(Device& device, const PointOptions& options)
    : device_(device),
      options_(options),
      screened_(std::make_unique<ScreenedDevice>(device)),
      bench_(*screened_) {}

PointSource::~PointSource() = default;

Result<const std::vector<MeasuredPoint>*> PointSource::PointsOf(
    const ConvProblem& problem, BatchSize batch,
    const std::vector<Bytes>& limits) {
  const auto [entry, is_new] = known_.try_emplace({problem, batch});
  if (!is_new) return &entry->second;
  std::vector<BatchSize> batches;
  for (BatchSize n = SmallestBatch(problem); n < batch; n = n + n) {
    batches.push_back(n);
  }
  batches.push_back(batch);
  Earlier earlier;
  for (const BatchSize n : batches) {
    UCUDNN_RETURN_IF_ERROR(MeasureBatch(problem, n, &earlier, &entry->second));
  }
  for (const Bytes limit : limits) {
    UCUDNN_RETURN_IF_ERROR(MeasureFitting(problem, limit, &entry->second));
  }
  return &entry->second;
}

Status PointSource::MeasureFitting(const ConvProblem& problem, Bytes limit,
                                   std::vector<MeasuredPoint>* points) {
  const auto per_image = [](const MeasuredPoint& p) {
    return static_cast<double>(p.time.count()) /
           static_cast<double>(p.batch.count());
  };
  double best = 1e30;  // of what fits
  for (const MeasuredPoint& p : *points) {
    if (p.workspace <= limit) best = std::min(best, per_image(p));
  }
  // What might beat it on more images than fit so far, the most promising
  // first.
  std::vector<std::pair<double, SizedPoint>> promising;
  for (const MeasuredPoint& small : *points) {
    if (small.workspace > limit) continue;
    for (const MeasuredPoint& large : *points) {
      if (large.algorithm != small.algorithm ||
          large.batch.count() != 2 * small.batch.count() ||
          large.workspace <= limit || per_image(large) >= best) {
        continue;
      }
      const double part =
          static_cast<double>((limit - small.workspace).count()) /
          static_cast<double>((large.workspace - small.workspace).count());
      const auto images = static_cast<std::int64_t>(
          static_cast<double>(small.batch.count()) * (1 + part));
      promising.push_back(
          {per_image(large), {large.algorithm, images / 8 * 8, small.batch}});
    }
  }
  std::sort(promising.begin(), promising.end(),
            [](const auto& x, const auto& y) { return x.first < y.first; });
  constexpr std::size_t kMost = 3;
  if (promising.size() > kMost) promising.resize(kMost);
  for (auto& [time, point] : promising) {
    for (; point.images > point.smaller.count(); point.images -= 8) {
      const BatchSize batch(point.images);
      const auto convolution = device_.Prepare(problem, batch, point.algorithm);
      if (!convolution) break;
      const Bytes workspace = (*convolution)->workspace();
      if (workspace > limit) continue;
      const bool known = std::any_of(
          points->begin(), points->end(), [&](const MeasuredPoint& p) {
            return p.batch == batch && p.algorithm == point.algorithm;
          });
      if (!known) {
        UCUDNN_RETURN_IF_ERROR(
            Measure(problem, batch, {{point.algorithm, workspace}}, points));
      }
      break;
    }
  }
  return {};
}

Status PointSource::Reserve(const ConvProblem& problem, BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  const Bytes image(std::max({g.input_elements(), g.output_elements(),
                              g.filter_elements() / batch.count() + 1}) *
                    ElementBytes(problem.precision));
  const Bytes size = image * batch.count();
  UCUDNN_RETURN_IF_ERROR(Grow(device_, size, &a_));
  UCUDNN_RETURN_IF_ERROR(Grow(device_, size, &b_));
  return Grow(device_, size, &out_);
}

Result<Nanoseconds> PointSource::RunOnce(const ConvProblem& problem,
                                         BatchSize batch,
                                         const Candidate& candidate) {
  UCUDNN_ASSIGN_OR_RETURN(const auto convolution,
                          device_.Prepare(problem, batch, candidate.algorithm));
  UCUDNN_RETURN_IF_ERROR(Grow(device_, candidate.workspace, &workspace_));
  const ConvArgs args = {a_.data(), b_.data(), out_.data()};
  const auto run = [&] {
    return device_.Time([&] {
      return convolution->Run(args, workspace_.data(), candidate.workspace);
    });
  };
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds first, run());
  // The first one may load code, which shows in short runs.
  constexpr Nanoseconds kLong = std::chrono::milliseconds(10);
  if (first > kLong) return first;
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds second, run());
  return std::min(first, second);
}

Status PointSource::MeasureBatch(const ConvProblem& problem, BatchSize batch,
                                 Earlier* earlier,
                                 std::vector<MeasuredPoint>* points) {
  const auto begun = Clock::now();
  ++effort_.tasks;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Candidate> listed,
                          device_.ListAlgorithms(problem, batch));
  effort_.listed += static_cast<int>(listed.size());
  UCUDNN_RETURN_IF_ERROR(Reserve(problem, batch));
  const auto ran = Clock::now();
  std::vector<Run> runs;
  for (const Candidate& candidate : listed) {
    if (candidate.workspace > options_.max_workspace) continue;
    const auto known = earlier->find(candidate.algorithm);
    const auto rival = BestRival(runs, candidate);
    const auto images = static_cast<double>(batch.count());
    if (known != earlier->end() && rival &&
        known->second * images > options_.hopeless * *rival) {
      continue;
    }
    const auto time = RunOnce(problem, batch, candidate);
    ++effort_.run_once;
    if (!time) {
      ++effort_.failed;
      UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
      continue;
    }
    const auto ns = static_cast<double>(time->count());
    (*earlier)[candidate.algorithm] = ns / images;
    runs.push_back({candidate, ns});
  }
  std::vector<Candidate> kept;
  for (const Run& run : runs) {
    const auto best = BestRival(runs, run.candidate);
    if (run.time <= options_.near * *best) kept.push_back(run.candidate);
  }
  effort_.listing += ran - begun;
  effort_.running += Clock::now() - ran;
  if (kept.empty()) return {};
  return Measure(problem, batch, std::move(kept), points);
}

Status PointSource::Measure(const ConvProblem& problem, BatchSize batch,
                            std::vector<Candidate> candidates,
                            std::vector<MeasuredPoint>* points) {
  const auto begun = Clock::now();
  MeasureOptions options;
  options.max_repeats = 4;
  options.hopeless_factor = 1e6;  // what is hopeless was found before
  options.max_workspace = options_.max_workspace;
  const auto asked = static_cast<int>(candidates.size());
  screened_->Keep(std::move(candidates));
  auto found = bench_.Measure(problem, batch, options, std::stop_token(), {});
  effort_.measuring += Clock::now() - begun;
  if (!found) {
    effort_.failed += asked;
    return device_.Synchronize();
  }
  effort_.measured += static_cast<int>(found->size());
  points->insert(points->end(), found->begin(), found->end());
  return {};
}

}  // namespace ucudnn::figures
