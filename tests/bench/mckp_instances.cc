#include "tests/bench/mckp_instances.h"

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "base/files/file.h"
#include "base/network.h"
#include "base/profile.h"
#include "solver/micro_batch/pareto.h"

namespace ucudnn::bench {
namespace {

using Random = std::mt19937_64;

constexpr std::int64_t kTimeStep = 32;        // ns
constexpr std::int64_t kWorkspaceStep = 256;  // bytes
constexpr std::int64_t kMeasuredBatch = 256;

// A number in [0, 1), the same with every standard library.
double Unit(Random& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

std::int64_t Below(Random& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
}

std::int64_t RoundUp(double value, std::int64_t step) {
  const auto whole = static_cast<std::int64_t>(value);
  return (whole + step - 1) / step * step;
}

struct Measured {
  ConvGeometry geometry;
  ConvOp op;
  std::vector<FrontPoint> front;
};

double Activations(const ConvGeometry& g) {
  return static_cast<double>(g.input_elements() + g.output_elements());
}

Result<Network> ReadLayers(const std::string& data, const std::string& name) {
  const std::string path = data + "/networks/" + name + ".csv";
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1_MiB));
  return ParseNetworkCsv(text, name, path);
}

Result<std::vector<Measured>> ReadMeasured(const std::string& data) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Profile profile,
      ReadProfileFile(data + "/h200/alexnet_conv2-5_b256_all_fp32.csv.gz"));
  UCUDNN_ASSIGN_OR_RETURN(const Network alexnet,
                          ReadLayers(data, "alexnet_caffe"));
  std::vector<Measured> measured;
  for (const KernelProfile& kernel : profile.kernels) {
    UCUDNN_ASSIGN_OR_RETURN(
        const ParetoFront front,
        SolvePareto(kernel.points, {.batch = BatchSize(kMeasuredBatch),
                                    .workspace_limit = 512_MiB,
                                    .policy = BatchPolicy::kAll}));
    for (const ConvLayer& layer : alexnet.layers) {
      if (layer.name != kernel.id.layer) continue;
      measured.push_back({layer.geometry, kernel.id.op, front.points()});
    }
  }
  if (measured.empty()) {
    return Fail(Code::kNotFound, "no measured layer is AlexNet's");
  }
  return measured;
}

std::vector<MckpItem> Scaled(const Measured& from, const ConvGeometry& to,
                             std::int64_t batch, Random& random) {
  const double batches =
      static_cast<double>(batch) / static_cast<double>(kMeasuredBatch);
  const double times = batches * static_cast<double>(to.multiply_adds()) /
                       static_cast<double>(from.geometry.multiply_adds());
  const double sizes = batches * Activations(to) / Activations(from.geometry);
  std::vector<MckpItem> items;
  for (const FrontPoint& point : from.front) {
    const double jitter = 1 + 0.06 * (Unit(random) - 0.5);
    const MckpItem item = {
        RoundUp(static_cast<double>(point.time.count()) * times * jitter,
                kTimeStep),
        RoundUp(static_cast<double>(point.workspace.count()) * sizes,
                kWorkspaceStep)};
    if (!items.empty() && item.cost >= items.back().cost) continue;
    if (!items.empty() && item.weight == items.back().weight) items.pop_back();
    items.push_back(item);
  }
  return items;
}

}  // namespace

std::vector<MckpClass> MckpInstance::Kernels() const {
  std::vector<MckpClass> classes;
  classes.reserve(front_of.size());
  for (const std::uint32_t f : front_of) classes.push_back({fronts[f], 1});
  return classes;
}

std::vector<MckpClass> MckpInstance::Merged() const {
  std::vector<MckpClass> classes(fronts.size());
  for (std::size_t f = 0; f < fronts.size(); ++f) classes[f] = {fronts[f], 0};
  for (const std::uint32_t f : front_of) ++classes[f].count;
  return classes;
}

std::size_t MckpInstance::items() const {
  std::size_t sum = 0;
  for (const std::uint32_t f : front_of) sum += fronts[f].size();
  return sum;
}

Result<MckpInstance> MeasuredOnH200(const std::string& data,
                                    const std::string& network,
                                    const std::string& precision) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Profile read,
      ReadProfileFile(data + "/h200/resnet50_b32_pow2.csv.gz"));
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                          SelectKernels(read, {.precision = precision}));
  UCUDNN_ASSIGN_OR_RETURN(const Network measured, ReadLayers(data, "resnet50"));
  UCUDNN_ASSIGN_OR_RETURN(const Network layers, ReadLayers(data, network));
  using Key = std::pair<ConvGeometry, ConvOp>;
  std::map<Key, const KernelProfile*> known;
  for (const KernelProfile& kernel : profile.kernels) {
    for (const ConvLayer& layer : measured.layers) {
      if (layer.name != kernel.id.layer) continue;
      known.try_emplace({layer.geometry, kernel.id.op}, &kernel);
    }
  }
  MckpInstance instance;
  instance.name = network + "/measured/" + precision;
  instance.measured = true;
  std::map<Key, std::uint32_t> front_of;
  for (const Kernel& kernel :
       KernelsOf(layers, Precision::kFp32, Layout::kNchw)) {
    const Key key = {kernel.problem.geometry, kernel.op};
    const auto fresh = static_cast<std::uint32_t>(instance.fronts.size());
    const auto [at, inserted] = front_of.try_emplace(key, fresh);
    instance.front_of.push_back(at->second);
    if (!inserted) continue;
    const auto found = known.find(key);
    if (found == known.end()) {
      return Fail(Code::kNotFound, "{}: {} {} was not measured", network,
                  kernel.layer, Name(kernel.op));
    }
    UCUDNN_ASSIGN_OR_RETURN(const ParetoFront front,
                            SolvePareto(found->second->points,
                                        {.batch = BatchSize(32),
                                         .workspace_limit = 1_GiB,
                                         .policy = BatchPolicy::kPowerOfTwo}));
    auto& items = instance.fronts.emplace_back();
    for (const FrontPoint& point : front.points()) {
      items.push_back({point.time.count(), point.workspace.count()});
    }
  }
  return instance;
}

Result<MckpInstance> CudnnLike(const std::string& data,
                               const std::string& network, std::int64_t batch,
                               bool all_distinct, std::uint64_t seed) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Measured> measured,
                          ReadMeasured(data));
  UCUDNN_ASSIGN_OR_RETURN(const Network layers, ReadLayers(data, network));
  MckpInstance instance;
  instance.name = network + (all_distinct ? "/distinct" : "/shared");
  Random random(seed);
  std::map<std::pair<ConvGeometry, ConvOp>, std::uint32_t> known;
  for (const Kernel& kernel :
       KernelsOf(layers, Precision::kFp32, Layout::kNchw)) {
    const ConvGeometry& geometry = kernel.problem.geometry;
    const auto fresh = static_cast<std::uint32_t>(instance.fronts.size());
    const auto [at, inserted] = known.try_emplace({geometry, kernel.op}, fresh);
    if (!inserted && !all_distinct) {
      instance.front_of.push_back(at->second);
      continue;
    }
    std::vector<const Measured*> candidates;
    for (const Measured& m : measured) {
      const bool large = geometry.filter[1] >= 5;
      if (m.op == kernel.op && (m.geometry.filter[1] >= 5) == large) {
        candidates.push_back(&m);
      }
    }
    const Measured& chosen = *candidates[static_cast<std::size_t>(
        Below(random, std::ssize(candidates)))];
    instance.front_of.push_back(fresh);
    instance.fronts.push_back(Scaled(chosen, geometry, batch, random));
  }
  return instance;
}

MckpInstance Hard(HardFamily family, std::size_t kernels, std::uint64_t seed) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  static constexpr const char* kNames[] = {"identical", "aligned", "correlated",
                                           "subset-sum"};
  Random random(seed);
  MckpInstance instance;
  instance.name = kNames[static_cast<int>(family)];
  instance.front_of.assign(kernels, 0);
  const std::size_t fronts = family == HardFamily::kIdentical ? 1 : kernels;
  for (std::size_t f = 0; f < fronts; ++f) {
    if (family != HardFamily::kIdentical) {
      instance.front_of[f] = static_cast<std::uint32_t>(f);
    }
    std::vector<MckpItem> items;
    const std::int64_t time = 100'000 + Below(random, 10'000'000);
    items.push_back({time + 64 * kMiB, 0});
    const std::int64_t points = 8 + Below(random, 8);
    for (std::int64_t i = 0; i < points; ++i) {
      std::int64_t weight = 1 + Below(random, 64 * kMiB);
      if (family == HardFamily::kAligned) {
        weight = (1 + Below(random, 64)) * kMiB;
      }
      std::int64_t cost = time + 64 * kMiB - weight;
      if (family == HardFamily::kCorrelated) cost += Below(random, kMiB / 2);
      if (family == HardFamily::kIdentical || family == HardFamily::kAligned) {
        cost = time + Below(random, 64 * kMiB);
      }
      items.push_back({cost, weight});
    }
    instance.fronts.push_back(std::move(items));
  }
  return instance;
}

MckpInstance Small(std::uint64_t seed, std::int64_t* capacity) {
  Random random(seed);
  MckpInstance instance;
  instance.name = "small";
  std::int64_t least = 0;
  std::int64_t most = 0;
  const std::int64_t kernels = 1 + Below(random, 12);
  for (std::int64_t k = 0; k < kernels; ++k) {
    instance.front_of.push_back(static_cast<std::uint32_t>(k));
    auto& items = instance.fronts.emplace_back();
    std::int64_t time = 100'000 + Below(random, 5'000'000);
    std::int64_t workspace = 4352 * Below(random, 4);
    least += workspace;
    for (std::int64_t i = 1 + Below(random, 6); i > 0; --i) {
      items.push_back({time, workspace});
      time -= 1 + Below(random, time / 3);
      workspace += (1 + Below(random, std::int64_t{1} << 18)) * kWorkspaceStep;
    }
    most += items.back().weight;
  }
  *capacity = least + Below(random, most - least + 1);
  return instance;
}

std::int64_t CapacityAt(const MckpInstance& instance, double part) {
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (const std::uint32_t f : instance.front_of) {
    const auto& items = instance.fronts[f];
    const auto lighter = [](const MckpItem& a, const MckpItem& b) {
      return a.weight < b.weight;
    };
    const auto cheaper = [](const MckpItem& a, const MckpItem& b) {
      return std::tie(a.cost, a.weight) < std::tie(b.cost, b.weight);
    };
    least += std::min_element(items.begin(), items.end(), lighter)->weight;
    most += std::min_element(items.begin(), items.end(), cheaper)->weight;
  }
  return least +
         static_cast<std::int64_t>(part * static_cast<double>(most - least));
}

}  // namespace ucudnn::bench
