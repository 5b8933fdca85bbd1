// Runs hundreds of random convolutions, writes their results to a file, and
// compares two such files.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "gpu.h"

namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U) {}
  std::uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  int In(int low, int high) {
    return low + static_cast<int>(Next() %
                                  static_cast<std::uint64_t>(high - low + 1));
  }
  bool Chance(int percent) { return In(1, 100) <= percent; }
  float Unit() { return static_cast<float>(Next() >> 40) * 0x1p-23F - 1.0F; }

 private:
  std::uint64_t state_;
};

struct Case {
  Problem problem;
  float alpha = 1;
  float beta = 0;
};

// `batch`: 0 for a random one.
Case MakeCase(int seed, int batch = 0) {
  Random random(static_cast<std::uint64_t>(seed) + 1);
  Case result;
  Problem& p = result.problem;
  p.op = static_cast<Op>(seed % 3);
  const int kind = random.In(1, 10);
  if (kind > 6) p.math = CUDNN_DEFAULT_MATH;
  if (kind > 8) p.type = CUDNN_DATA_HALF;
  if (kind > 9) p.type = CUDNN_DATA_BFLOAT16;
  if (random.Chance(25)) p.format = CUDNN_TENSOR_NHWC;
  p.n = random.In(1, 7);
  if (batch > 0) p.n = batch;
  p.groups = random.Chance(75) ? 1 : random.In(2, 4);
  p.c = p.groups * random.In(1, random.Chance(50) ? 8 : 48 / p.groups);
  p.k = p.groups * random.In(1, random.Chance(50) ? 8 : 48 / p.groups);
  const std::size_t dims = random.Chance(85) ? 2 : 3;
  const std::array<int, 6> filters = {1, 2, 3, 3, 5, 7};
  const bool square = random.Chance(60);
  for (std::size_t i = 0; i < dims; ++i) {
    const int filter = dims == 3
                           ? random.In(1, 3)
                           : filters[static_cast<std::size_t>(random.In(0, 5))];
    p.filter.push_back(square && i > 0 ? p.filter[0] : filter);
    p.in.push_back(random.In(7, dims == 3 ? 10 : 30) + p.filter[i]);
    p.pad.push_back(random.In(0, std::min(2, p.filter[i] - 1)));
    p.stride.push_back(random.Chance(70) ? 1 : 2);
    p.dilation.push_back(random.Chance(85) ? 1 : 2);
  }
  const std::array<float, 4> alphas = {1, 1, 0.5F, -1.5F};
  const std::array<float, 4> betas = {0, 0, 1, 0.75F};
  result.alpha = alphas[static_cast<std::size_t>(random.In(0, 3))];
  result.beta = betas[static_cast<std::size_t>(random.In(0, 3))];
  return result;
}

// Values that the type holds exactly; few bits for short types.
std::vector<unsigned char> Values(std::size_t count, cudnnDataType_t type,
                                  std::uint64_t seed) {
  Random random(seed);
  std::vector<unsigned char> bytes(count * ElementSize(type));
  for (std::size_t i = 0; i < count; ++i) {
    float value = random.Unit();
    if (type == CUDNN_DATA_FLOAT) {
      std::memcpy(&bytes[i * 4], &value, 4);
      continue;
    }
    value = static_cast<float>(random.In(-15, 15)) / 16.0F;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    std::uint16_t narrow = static_cast<std::uint16_t>(bits >> 16);
    if (type == CUDNN_DATA_HALF) {
      narrow = value == 0 ? std::uint16_t{0}
                          : static_cast<std::uint16_t>(
                                ((bits >> 16) & 0x8000) |
                                ((((bits >> 23) & 0xff) - 112) << 10) |
                                ((bits >> 13) & 0x3ff));
    }
    std::memcpy(&bytes[i * 2], &narrow, 2);
  }
  return bytes;
}

float Decode(const unsigned char* from, cudnnDataType_t type) {
  float value = 0;
  if (type == CUDNN_DATA_FLOAT) {
    std::memcpy(&value, from, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, 2);
  std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  if (type == CUDNN_DATA_HALF) {
    const std::uint32_t exponent = (bits >> 10) & 0x1f;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
    if (exponent == 0) {
      value = static_cast<float>(bits & 0x3ff) * 0x1p-24F;
      return sign != 0 ? -value : value;
    }
    wide = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) |
           (static_cast<std::uint32_t>(bits & 0x3ff) << 13);
  }
  std::memcpy(&value, &wide, 4);
  return value;
}

}  // namespace

int RunRandom(int first, int count, int batch, bool direct,
              const std::string& file) {
  Handle handle = nullptr;
  CHECK(cudnnCreate(&handle));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudnnSetStream(handle, stream));
  Memory x, w, y, workspace;
  std::ofstream out(file, std::ios::binary);
  int done = 0;
  for (int seed = first; seed < first + count; ++seed) {
    const Case c = MakeCase(seed, batch);
    const Problem& p = c.problem;
    const Descriptors d(p);
    const std::size_t element = ElementSize(p.type);
    const Choice choice =
        Choose(handle, p.op, d, std::size_t{32} << 20, direct);
    if (choice.algorithm < 0) continue;
    const std::array<std::size_t, 3> sizes = {d.x_elements, d.w_elements,
                                              d.y_elements};
    const std::array<Memory*, 3> memory = {&x, &w, &y};
    const std::size_t result = p.op == kForward ? 2 : (p.op == kData ? 0 : 1);
    std::array<void*, 3> data = {};
    std::vector<unsigned char> before;  // of the result
    for (std::size_t i = 0; i < 3; ++i) {
      auto bytes =
          Values(sizes[i], p.type, static_cast<std::uint64_t>(seed) * 3 + i);
      if (i == result && c.beta == 0) {  // must not be read
        std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0xff));
      }
      data[i] = memory[i]->Get(bytes.size());
      CHECK(cudaMemcpy(data[i], bytes.data(), bytes.size(),
                       cudaMemcpyHostToDevice));
      if (i == result) before = std::move(bytes);
    }
    void* const scratch =
        choice.workspace > 0 ? workspace.Get(choice.workspace) : nullptr;
    // The handle enqueues the first, captures the second and replays the third.
    for (int run = 0; run < 3; ++run) {
      CHECK(cudaMemcpy(data[result], before.data(), before.size(),
                       cudaMemcpyHostToDevice));
      const cudnnStatus_t status =
          Convolve(handle, p.op, d, choice, c.alpha, c.beta, data[0], data[1],
                   data[2], scratch);
      if (status != CUDNN_STATUS_SUCCESS) {
        std::fprintf(stderr, "%d %s: %s\n", seed, p.Text().c_str(),
                     cudnnGetErrorString(status));
        return 1;
      }
      CHECK(cudaStreamSynchronize(stream));
    }
    std::vector<unsigned char> bytes(sizes[result] * element);
    CHECK(cudaMemcpy(bytes.data(), data[result], bytes.size(),
                     cudaMemcpyDeviceToHost));
    const auto type = static_cast<int>(p.type);
    const std::uint64_t size = bytes.size();
    out.write(reinterpret_cast<const char*>(&seed), sizeof seed);
    out.write(reinterpret_cast<const char*>(&type), sizeof type);
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    ++done;
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudnnDestroy(handle));
  std::printf("%d of %d problems run\n", done, count);
  return 0;
}

int WritePlan(int first, int count, int batch, const std::string& file) {
  std::ofstream out(file);
  out << "{\"batch\":" << batch
      << ",\"workspace_limit_bytes\":33554432,\"total_time_us\":1,"
         "\"lower_bound_us\":1,\"optimal\":false,\"undivided_time_us\":null,"
         "\"total_workspace_bytes\":33554432,\"kernels\":[";
  for (int seed = first; seed < first + count; ++seed) {
    const Problem p = MakeCase(seed, batch).problem;
    const std::string key = p.Key();
    const std::string precision =
        p.type == CUDNN_DATA_HALF
            ? "PSEUDO_HALF"
            : (p.type == CUDNN_DATA_BFLOAT16
                   ? "BF16"
                   : (p.math == CUDNN_FMA_MATH ? "FP32" : "TF32"));
    const std::string algorithm = p.op == kForward ? "IMPLICIT_GEMM" : "ALGO_1";
    const char* math = p.type == CUDNN_DATA_FLOAT && p.math == CUDNN_FMA_MATH
                           ? "FMA"
                           : "DEFAULT";
    const auto micro = [&](int size, int times) {
      return "{\"batch\":" + std::to_string(size) +
             ",\"count\":" + std::to_string(times) + ",\"algorithm\":\"" +
             algorithm + "\",\"math\":\"" + math + "\",\"precision\":\"" +
             precision + "\",\"time_us\":1,\"workspace_bytes\":33554432}";
    };
    out << (seed > first ? "," : "") << "{\"layer\":\"l" << seed
        << "\",\"op\":\"" << Name(p.op) << "\",\"precision\":\"" << precision
        << "\",\"layout\":\""
        << (p.format == CUDNN_TENSOR_NCHW ? "NCHW" : "NHWC")
        << "\",\"problem\":\"" << key
        << "\",\"time_us\":1,\"undivided_time_us\":null,"
           "\"workspace_bytes\":33554432,\"micro_batches\":["
        << micro(3, batch / 3);
    if (batch % 3 > 0) out << ',' << micro(batch % 3, 1);
    out << "]}";
  }
  out << "]}\n";
  return out ? 0 : 1;
}

namespace {

struct Record {
  cudnnDataType_t type;
  std::vector<unsigned char> bytes;
};

std::map<int, Record> ReadRecords(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::map<int, Record> records;
  int seed = 0;
  int type = 0;
  std::uint64_t size = 0;
  while (in.read(reinterpret_cast<char*>(&seed), sizeof seed) &&
         in.read(reinterpret_cast<char*>(&type), sizeof type) &&
         in.read(reinterpret_cast<char*>(&size), sizeof size)) {
    std::vector<unsigned char> bytes(size);
    in.read(reinterpret_cast<char*>(bytes.data()),
            static_cast<std::streamsize>(size));
    records[seed] = {static_cast<cudnnDataType_t>(type), std::move(bytes)};
  }
  return records;
}

}  // namespace

int Compare(const std::string& a, const std::string& b, double limit) {
  const auto left = ReadRecords(a);
  const auto right = ReadRecords(b);
  struct Worst {
    double error = 0;
    int seed = -1;
    int problems = 0;
    int over = 0;
  };
  std::map<std::string, Worst> worst;
  int missing = 0;
  for (const auto& [seed, record] : left) {
    const auto found = right.find(seed);
    if (found == right.end() ||
        found->second.bytes.size() != record.bytes.size()) {
      ++missing;
      continue;
    }
    const std::size_t element = ElementSize(record.type);
    double difference = 0;
    double largest = 0;
    for (std::size_t i = 0; i < record.bytes.size(); i += element) {
      const double l = Decode(&record.bytes[i], record.type);
      const double r = Decode(&found->second.bytes[i], record.type);
      if (!std::isfinite(l) || !std::isfinite(r)) {
        difference = 1e30;
        break;
      }
      difference = std::max(difference, std::abs(l - r));
      largest = std::max(largest, std::abs(l));
    }
    const Problem p = MakeCase(seed).problem;
    const bool fp32 = p.type == CUDNN_DATA_FLOAT && p.math == CUDNN_FMA_MATH;
    const std::string group =
        std::string(Name(p.op)) +
        (fp32 ? " FP32"
              : (p.type == CUDNN_DATA_FLOAT
                     ? " TF32"
                     : (p.type == CUDNN_DATA_HALF ? " HALF" : " BF16")));
    const double error = largest > 0 ? difference / largest : difference;
    Worst& w = worst[group];
    ++w.problems;
    const double admitted =
        fp32 ? limit : (p.type == CUDNN_DATA_BFLOAT16 ? 2e-2 : 4e-3);
    if (error > admitted) {
      ++w.over;
      std::printf("  %d %s: %.3g\n", seed, p.Text().c_str(), error);
    }
    if (error >= w.error) {
      w.error = error;
      w.seed = seed;
    }
  }
  int over = 0;
  for (const auto& [group, w] : worst) {
    std::printf("%-22s %4d problems, largest error %.3g (%s), %d too large\n",
                group.c_str(), w.problems, w.error,
                MakeCase(w.seed).problem.Text().c_str(), w.over);
    over += w.over;
  }
  std::printf("%d in one file only, %d differ by too much\n", missing, over);
  return missing > 0 || over > 0 || left.empty() ? 1 : 0;
}
