// Static allocation of MiniMalloc's public instances, which are not in the
// repository (shared data, minimalloc/challenging), at their capacity; and of
// rectangles cut into buffers, whose smallest pool is known.
//
//   allocation_bench

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/files/buffers.h"
#include "solver/arena/allocation.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

void Run(benchmark::State& state, const std::vector<Buffer>& buffers,
         const AllocationOptions& options) {
  Result<Allocation> allocation;
  for (auto _ : state) allocation = Allocate(buffers, options, {});
  if (!allocation) {
    state.SkipWithError(allocation.error().message.c_str());
    return;
  }
  state.counters["buffers"] = static_cast<double>(buffers.size());
  state.counters["pool"] = static_cast<double>(allocation->pool.count());
  state.counters["load"] = static_cast<double>(allocation->load.count());
  state.counters["proven"] = allocation->proven ? 1 : 0;
}

// A rectangle of 64 times and 4096 bytes, cut `cuts` times in time or in space.
std::vector<Buffer> CutRectangle(int cuts) {
  struct Piece {
    std::int64_t begin, end, size;
  };
  std::mt19937_64 random(1);
  std::vector<Piece> pieces = {{0, 64, 4096}};
  while (cuts > 0) {
    Piece& piece = pieces[random() % pieces.size()];
    Piece rest = piece;
    if (random() % 2 == 0) {
      if (piece.end - piece.begin < 2) continue;
      piece.end = rest.begin = (piece.begin + piece.end) / 2;
    } else {
      if (piece.size < 4) continue;
      piece.size =
          1 + static_cast<std::int64_t>(
                  random() % static_cast<std::uint64_t>(rest.size - 1));
      rest.size -= piece.size;
    }
    pieces.push_back(rest);
    --cuts;
  }
  std::vector<Buffer> buffers;
  buffers.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    buffers.push_back({piece.begin, piece.end, Bytes(piece.size)});
  }
  return buffers;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) {
  using namespace ucudnn;
  benchmark::Initialize(&argc, argv);
  const auto folder = test::PublicDataPath("minimalloc/challenging/");
  for (const char name : std::string(folder ? "ABCDEFGHIJK" : "")) {
    const std::string file = *folder + std::string(1, name) + ".1048576.csv";
    auto read = ReadBuffersFile(file);
    if (!read) {
      std::fprintf(stderr, "%s\n", read.error().message.c_str());
      return 1;
    }
    benchmark::RegisterBenchmark(
        (std::string("Public/") + name).c_str(),
        [buffers = std::move(read->buffers)](benchmark::State& state) {
          Run(state, buffers, {.capacity = 1048576_B, .alignment = 1_B});
        })
        ->Unit(benchmark::kMillisecond);
  }
  for (const int cuts : {10, 30, 100, 300}) {
    benchmark::RegisterBenchmark(
        ("CutRectangle/" + std::to_string(cuts)).c_str(),
        [buffers = CutRectangle(cuts)](benchmark::State& state) {
          Run(state, buffers, {.capacity = 4096_B, .alignment = 1_B});
        })
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
