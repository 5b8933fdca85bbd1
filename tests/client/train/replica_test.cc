// The passes of real networks on the CPU, compared with finite differences of
// the loss.

#include "client/examples/train/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "client/examples/train/data.h"
#include "client/executor/undivided.h"
#include "device/onednn/onednn_device.h"
#include "device/operators/open.h"

namespace ucudnn::train {
namespace {

constexpr std::uint64_t kSeed = 11;

class ReplicaTest : public ::testing::Test {
 protected:
  ReplicaTest() {
    device_ = OpenOneDnnDevice({.threads = 1}).value();
    operators_ = OpenOperators(*device_).value();
  }

  void Open(Net net) {
    net_ = std::move(net);
    kernels_ = KernelsOf(ConvolutionsOf(net_), Precision::kFp32, Layout::kNchw);
    parameters_ = Parameters::Create(*device_, net_, kSeed).value();
  }

  // Micro-batches of `micro` images, which divides the batch.
  std::unique_ptr<Replica> MakeReplica(std::int64_t batch, std::int64_t micro) {
    WorkspacePlan plan =
        UndividedPlan(*device_, kernels_, BatchSize(micro), 64_MiB).value();
    plan.batch = BatchSize(batch);
    for (KernelPlan& kernel : plan.kernels) {
      kernel.micro_batches[0].count = batch / micro;
    }
    auto replica =
        Replica::Create(*device_, *operators_, net_, plan, *parameters_);
    UCUDNN_CHECK(replica.has_value());
    return *std::move(replica);
  }

  // Images [first, first + count) of the synthetic ones.
  void Load(Replica& replica, std::int64_t first) {
    const ImageExtent& extent = net_.tensors[0];
    const SyntheticImages data(extent, net_.classes(), 100, kSeed);
    images_.clear();
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < replica.batch().count(); ++i) {
      std::vector<float> image(static_cast<std::size_t>(extent.elements()));
      data.Read(first + i, image.data());
      images_.insert(images_.end(), image.begin(), image.end());
      labels.push_back(data.Label(first + i));
    }
    ASSERT_TRUE(replica.Load(images_, labels));
  }

  std::vector<float> Gradients() {
    const std::span<float> gradients = parameters_->gradients();
    std::vector<float> values(gradients.size());
    EXPECT_TRUE(device_->Download(
        values.data(), gradients.data(),
        Bytes(std::ssize(gradients) * std::int64_t{sizeof(float)})));
    return values;
  }

  // The directional derivative of the loss equals its finite difference. Checks
  // every `nth` layer, starting with the last.
  void ExpectGradientsOfTheLoss(std::size_t nth) {
    const auto replica = MakeReplica(4, 2);
    Load(*replica, 0);
    ASSERT_TRUE(replica->Run());
    const std::vector<float> gradients = Gradients();
    const Parameters::State start = parameters_->Save().value();
    for (std::size_t layer = 0; layer < net_.layers.size(); ++layer) {
      if (net_.layers[layer].kind != Layer::Kind::kConvolution) continue;
      if ((net_.layers.size() - 1 - layer) % nth != 0) continue;
      const auto begin = static_cast<std::size_t>(parameters_->gradient(layer) -
                                                  parameters_->gradient(0));
      const auto size = static_cast<std::size_t>(
          net_.layers[layer].geometry.filter_elements());
      double norm = 0;
      for (std::size_t i = begin; i < begin + size; ++i) {
        norm += double{gradients[i]} * gradients[i];
      }
      ASSERT_GT(norm, 0) << net_.layers[layer].name;
      const auto loss_at = [&](double step) {
        Parameters::State moved = start;
        for (std::size_t i = begin; i < begin + size; ++i) {
          moved.filters[i] +=
              static_cast<float>(step / std::sqrt(norm) * double{gradients[i]});
        }
        EXPECT_TRUE(parameters_->Restore(moved));
        EXPECT_TRUE(replica->Run());
        return replica->Loss().value() / 4;
      };
      constexpr double kStep = 1e-2;
      const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(slope / std::sqrt(norm), 1, 0.05) << net_.layers[layer].name;
      ASSERT_TRUE(parameters_->Restore(start));
    }
  }

  std::unique_ptr<Device> device_;
  std::vector<float> images_;  // being loaded
  std::unique_ptr<Operators> operators_;
  Net net_;
  std::vector<Kernel> kernels_;
  std::unique_ptr<Parameters> parameters_;
};

TEST_F(ReplicaTest, HasTheGradientsOfLeNetsLoss) {
  Open(LeNet({1, 12, 12}, 5).value());
  ExpectGradientsOfTheLoss(1);
}

TEST_F(ReplicaTest, HasTheGradientsOfResNetsLoss) {
  Open(ResNet18({3, 32, 32}, 5).value());
  ExpectGradientsOfTheLoss(6);
}

TEST_F(ReplicaTest, SumsUpOverUnevenSharesToTheWholeBatch) {
  Open(LeNet({2, 14, 12}, 7).value());
  const auto whole = MakeReplica(8, 4);
  Load(*whole, 0);
  ASSERT_TRUE(whole->Run());
  const double loss = whole->Loss().value();
  const std::vector<float> expected = Gradients();
  std::vector<double> sum(expected.size());
  double parts = 0;
  std::int64_t first = 0;
  for (const std::int64_t share : {5, 1, 2}) {
    const auto part = MakeReplica(share, 1);
    Load(*part, first);
    first += share;
    ASSERT_TRUE(part->Run());
    parts += part->Loss().value();
    const std::vector<float> gradients = Gradients();
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += double{gradients[i]} * static_cast<double>(share) / 8;
    }
  }
  EXPECT_NEAR(parts, loss, 1e-5 * loss);
  float largest = 0;
  for (const float g : expected) largest = std::max(largest, std::abs(g));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    ASSERT_NEAR(sum[i], expected[i], 1e-5 * largest) << i;
  }
}

TEST_F(ReplicaTest, ReportsWhenAGradientIsEnqueued) {
  Open(ResNet18({3, 32, 32}, 5).value());
  const auto replica = MakeReplica(2, 1);
  Load(*replica, 0);
  std::map<std::size_t, std::vector<float>> when_made;
  std::vector<std::size_t> order;
  const auto gradient = [&](std::size_t layer) {
    const float* const start = parameters_->gradient(layer);
    return std::vector<float>(
        start, start + net_.layers[layer].geometry.filter_elements());
  };
  ASSERT_TRUE(replica->Run([&](std::size_t layer) -> Status {
    order.push_back(layer);
    when_made[layer] = gradient(layer);
    return {};
  }));
  EXPECT_EQ(order.size(), 21U);
  EXPECT_TRUE(std::is_sorted(order.rbegin(), order.rend()));
  for (const auto& [layer, values] : when_made) {
    EXPECT_EQ(values, gradient(layer)) << net_.layers[layer].name;
  }
  const Status stopped = replica->Run(
      [](std::size_t) -> Status { return Fail(Code::kAborted, "enough"); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kAborted);
}

TEST_F(ReplicaTest, HasBucketsInTheOrderOfComputation) {
  Open(ResNet18({3, 32, 32}, 5).value());
  for (const Bytes least : {Bytes(1), 2_MiB, 1_GiB}) {
    const auto buckets = parameters_->Buckets(least);
    const std::span<float> all = parameters_->gradients();
    const float* end = all.data() + all.size();
    for (const Parameters::Bucket& bucket : buckets) {
      EXPECT_EQ(bucket.gradients.data() + bucket.gradients.size(), end);
      // The layer computed last comes first in memory.
      EXPECT_EQ(bucket.gradients.data(), parameters_->gradient(bucket.layer));
      end = bucket.gradients.data();
      if (&bucket != &buckets.back()) {
        EXPECT_GE(bucket.gradients.size_bytes(),
                  static_cast<std::size_t>(least.count()));
      }
    }
    EXPECT_EQ(end, all.data());
  }
  EXPECT_EQ(parameters_->Buckets(Bytes(1)).size(), 21U);
  EXPECT_EQ(parameters_->Buckets(1_GiB).size(), 1U);
}

TEST_F(ReplicaTest, LearnsAndIsTimed) {
  Open(LeNet({1, 12, 12}, 4).value());
  const auto replica = MakeReplica(8, 8);
  Load(*replica, 0);
  ASSERT_TRUE(replica->Run());
  const double before = replica->Loss().value();
  EXPECT_NEAR(before / 8, std::log(4), 1);
  for (int step = 0; step < 20; ++step) {
    ASSERT_TRUE(replica->Run());
    ASSERT_TRUE(parameters_->Update(*operators_, 0.02F, 0.9F));
  }
  ASSERT_TRUE(replica->Run());
  EXPECT_LT(replica->Loss().value(), before / 4);
  EXPECT_GT(replica->TimeConvolutions().value(), Nanoseconds(0));
  EXPECT_TRUE(replica->executor().fallbacks().empty());
}

TEST_F(ReplicaTest, SaysWhichKernelAPlanLacks) {
  Open(LeNet({1, 12, 12}, 4).value());
  WorkspacePlan plan =
      UndividedPlan(*device_, kernels_, BatchSize(2), 64_MiB).value();
  plan.kernels.pop_back();
  const auto replica =
      Replica::Create(*device_, *operators_, net_, plan, *parameters_);
  ASSERT_FALSE(replica);
  EXPECT_THAT(replica.error().message,
              ::testing::HasSubstr("fc2 backward_filter"));
}

}  // namespace
}  // namespace ucudnn::train
