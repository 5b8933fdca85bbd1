#ifndef UCUDNN_TESTS_BENCH_MCKP_INSTANCES_H_
#define UCUDNN_TESTS_BENCH_MCKP_INSTANCES_H_

// Instances of workspace division, measured and seeded, the same on every
// machine.
//
// Measured fronts: those of ResNet-50's 158 kernels (its first layer needs no
// backward_data) at batch 32 on an H200, powers of two. All convolutions of
// ResNet-152 have geometries that ResNet-50 has too, so its 464 kernels have
// measured fronts as well.
//
// cuDNN-like fronts: the Pareto fronts of AlexNet's conv2 to conv5 measured on
// an H200 (every batch up to 256, FP32) stand for the layers of another
// network. A layer of that network takes the front of the same operation of one
// of them: of conv2 if its filter is 5 x 5 or larger, otherwise of one of the
// three 3 x 3 layers, drawn at random. Times are scaled by the ratio of the
// layers' multiply-adds, workspaces by the ratio of their activations (input
// and output elements), both by the ratio of the batch sizes, and each point's
// time is jittered by up to 3 %. Times are rounded to 32 ns, the timer's
// resolution, and workspaces up to 256 bytes, the allocator's. Layers of one
// geometry share a front unless all are to be distinct.
//
// Hard families:
//   identical     one front drawn at random, for every kernel
//   aligned       random fronts whose workspaces are multiples of 1 MiB
//   correlated    time falls by as much as workspace grows, up to 1 %
//   subset-sum    time falls by exactly as much as workspace grows, in bytes

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "solver/knapsack/mckp.h"

namespace ucudnn::bench {

struct MckpInstance {
  std::string name;
  bool measured = false;
  std::vector<std::vector<MckpItem>> fronts;
  std::vector<std::uint32_t> front_of;  // of each kernel

  // One class for each kernel.
  std::vector<MckpClass> Kernels() const;
  // One class for each front, with the number of its kernels.
  std::vector<MckpClass> Merged() const;
  std::size_t items() const;  // over kernels
};

// The kernels of `data`/networks/`network`.csv with the fronts that
// `data`/h200/resnet50_b32_pow2.csv.gz has for their geometries, up to 1 GiB.
// `precision` is as for `ucudnn solve --precision`. Equal kernels share a
// front. kNotFound if a geometry was not measured.
Result<MckpInstance> MeasuredOnH200(const std::string& data,
                                    const std::string& network,
                                    const std::string& precision);

// From `data`/h200 and `data`/networks/`network`.csv: forward, backward_data
// (except of the first layer) and backward_filter of each convolution.
Result<MckpInstance> CudnnLike(const std::string& data,
                               const std::string& network, std::int64_t batch,
                               bool all_distinct, std::uint64_t seed);

enum class HardFamily { kIdentical, kAligned, kCorrelated, kSubsetSum };

MckpInstance Hard(HardFamily family, std::size_t kernels, std::uint64_t seed);

// A few kernels with short random fronts, sizes multiples of 256 bytes; a
// random capacity that suffices.
MckpInstance Small(std::uint64_t seed, std::int64_t* capacity);

// A capacity between the least that all kernels need and the most that they can
// use.
std::int64_t CapacityAt(const MckpInstance& instance, double part);

}  // namespace ucudnn::bench

#endif  // UCUDNN_TESTS_BENCH_MCKP_INSTANCES_H_
