#include "tests/contract/device_contract.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "device/measure/device_model.h"
#include "tests/contract/opened_devices.h"

namespace ucudnn::test {

using ::testing::HasSubstr;

void DeviceContractTest::SetUp() {
  auto& opened = OpenedFor(GetParam());
  if (!opened && opened.error().code == Code::kUnavailable) {
    GTEST_SKIP() << opened.error().message;
  }
  ASSERT_OK(opened);
  device_ = opened->get();
}

void DeviceContractTest::TearDownTestSuite() { OpenedDevices().clear(); }

TEST_P(DeviceContractTest, AlwaysReportsTheSameCache) {
  const Bytes cache = device_->cache();
  EXPECT_GE(cache, Bytes());
  EXPECT_EQ(device_->cache(), cache);
  if (device_->info().kind.memory > Bytes()) {
    EXPECT_LT(cache, device_->info().kind.memory);
  }
}

TEST_P(DeviceContractTest, SaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_NE(info.id, "");
  EXPECT_NE(info.kind.model, "");
  EXPECT_NE(info.kind.library, "");
  EXPECT_GE(info.kind.units, 0);
  EXPECT_EQ(info.kind.memory.count() % (1_GiB).count(), 0);
}

// Shapes on which backends are known to go wrong; each backend's list must have
// them.
TEST_P(DeviceContractTest, IsTriedOnOddShapes) {
  using Is = bool (*)(const ContractShape&);
  const std::pair<const char*, Is> odd[] = {
      {"one pixel",
       [](const ContractShape& s) {
         return s.geometry.input == Spatial{1, 1, 1};
       }},
      {"one image",
       [](const ContractShape& s) { return s.batch == BatchSize(1); }},
      {"an odd batch",
       [](const ContractShape& s) {
         return s.batch.count() > 1 && s.batch.count() % 2 == 1;
       }},
      {"1024 channels",
       [](const ContractShape& s) { return s.geometry.channels == 1024; }},
      {"1024 filters",
       [](const ContractShape& s) { return s.geometry.filters == 1024; }},
      {"a group for each channel",
       [](const ContractShape& s) {
         return s.geometry.groups > 1 &&
                s.geometry.groups == s.geometry.channels;
       }},
      {"fewer groups",
       [](const ContractShape& s) {
         return s.geometry.groups > 1 &&
                s.geometry.groups < s.geometry.channels;
       }},
      {"dilation",
       [](const ContractShape& s) {
         return s.geometry.dilation != Spatial{1, 1, 1};
       }},
      {"images folded into the batch",
       [](const ContractShape& s) { return s.geometry.images > 1; }},
      {"three dimensions",
       [](const ContractShape& s) { return s.geometry.spatial_dims == 3; }},
  };
  for (const auto& [what, is] : odd) {
    EXPECT_TRUE(
        std::any_of(GetParam().shapes.begin(), GetParam().shapes.end(), is))
        << "no shape has " << what;
  }
}

TEST_P(DeviceContractTest, KeepsWhatIsUploaded) {
  std::vector<unsigned char> sent(10'007);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i] = static_cast<unsigned char>(i * 31 + (i >> 8));
  }
  const Bytes size(static_cast<std::int64_t>(sent.size()));
  auto buffer = device_->Allocate(size);
  ASSERT_OK(buffer);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 256, 0U);
  EXPECT_EQ(buffer->size(), size);
  ASSERT_OK(device_->Upload(buffer->data(), sent.data(), size));
  std::vector<unsigned char> received(sent.size());
  ASSERT_OK(device_->Download(received.data(), buffer->data(), size));
  EXPECT_EQ(received, sent);

  auto* const middle = static_cast<unsigned char*>(buffer->data()) + 100;
  ASSERT_OK(device_->Fill(middle, 0x5c, Bytes(50)));
  ASSERT_OK(device_->Synchronize());
  std::fill_n(sent.begin() + 100, 50, 0x5c);
  ASSERT_OK(device_->Download(received.data(), buffer->data(), size));
  EXPECT_EQ(received, sent);
}

TEST_P(DeviceContractTest, AllocatesNothingForSizeZero) {
  auto buffer = device_->Allocate(Bytes());
  ASSERT_OK(buffer);
  EXPECT_EQ(buffer->size(), Bytes());
  EXPECT_TRUE(device_->Fill(buffer->data(), 1, Bytes()));
}

TEST_P(DeviceContractTest, RefusesToAllocateMoreThanThereIs) {
  EXPECT_CODE(Code::kResourceExhausted,
              device_->Allocate(Bytes(std::int64_t{1} << 50)));
  EXPECT_TRUE(device_->Allocate(Bytes(4096)));  // the device still works
}

TEST_P(DeviceContractTest, PassesOnTheErrorsOfTimedWork) {
  const auto timed = device_->Time(
      [] { return Status(Fail(Code::kAborted, "the work stopped")); });
  EXPECT_CODE(Code::kAborted, timed);
  EXPECT_THAT(timed.error().message, HasSubstr("the work stopped"));
  EXPECT_TRUE(device_->Synchronize());
  EXPECT_CODE(Code::kAborted, device_->TimeEnqueued([] {
    return Status(Fail(Code::kAborted, "the work stopped"));
  }));
  EXPECT_TRUE(device_->Synchronize());
}

TEST_P(DeviceContractTest, FinishesWorkThatItTimesEnqueued) {
  const Bytes size(4096);
  auto buffer = device_->Allocate(size);
  ASSERT_OK(buffer);
  const auto time = device_->TimeEnqueued(
      [&] { return device_->Fill(buffer->data(), 7, size); });
  ASSERT_OK(time);
  EXPECT_GE(time->device.count(), 0);
  EXPECT_GE(time->host.count(), 0);
  std::string bytes(4096, '\0');
  ASSERT_OK(device_->Download(bytes.data(), buffer->data(), size));
  EXPECT_EQ(bytes, std::string(4096, '\7'));
}

TEST_P(DeviceContractTest, RecordsEventsInItsOrderOfWork) {
  const Bytes size = 1_MiB;
  auto buffer = device_->Allocate(size);
  ASSERT_OK(buffer);
  auto start = device_->MakeEvent();
  auto end = device_->MakeEvent();
  ASSERT_OK(start);
  ASSERT_OK(end);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK((*start)->Set());
    ASSERT_OK(device_->Fill(buffer->data(), 3, size));
    ASSERT_OK((*end)->Set());
    ASSERT_OK((*end)->Reached());
    ASSERT_OK(device_->Synchronize());
    EXPECT_TRUE((*start)->Reached().value());
    EXPECT_TRUE((*end)->Reached().value());
    EXPECT_GE((*end)->Since(**start).value(), Nanoseconds(0));
  }
}

TEST_P(DeviceContractTest, CopiesToAndFromItsHostMemory) {
  const Bytes size(4096);
  auto buffer = device_->Allocate(size);
  auto host = device_->AllocateHost(size);
  ASSERT_OK(buffer);
  ASSERT_OK(host);
  std::memset(host->data(), 5, 4096);
  ASSERT_OK(device_->Upload(buffer->data(), host->data(), size));
  std::memset(host->data(), 0, 4096);
  ASSERT_OK(device_->Download(host->data(), buffer->data(), size));
  EXPECT_EQ(std::string(static_cast<char*>(host->data()), 4096),
            std::string(4096, '\5'));
  ASSERT_OK(device_->AllocateHost(Bytes(0)));
}

TEST_P(DeviceContractTest, CopiesInQueuesWhileItComputes) {
  const Bytes size = 1_MiB;
  auto buffers = device_->Allocate(size * 2);
  auto up = device_->AllocateHost(size);
  auto down = device_->AllocateHost(size);
  ASSERT_OK(buffers);
  ASSERT_OK(up);
  ASSERT_OK(down);
  auto* const first = static_cast<char*>(buffers->data());
  auto* const second = first + size.count();
  ASSERT_OK(device_->Fill(second, 9, size));
  ASSERT_OK(device_->Synchronize());
  std::memset(up->data(), 5, 1 << 20);
  {
    const auto made = device_->MakeCopyQueue();
    const auto other = device_->MakeCopyQueue();
    ASSERT_OK(made);
    ASSERT_OK(other);
    CopyQueue& uploads = **made;
    CopyQueue& downloads = **other;
    ASSERT_OK(uploads.Synchronize());  // nothing to wait for
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = i * (size.count() / 4);
      ASSERT_OK(uploads.Upload(first + at, static_cast<char*>(up->data()) + at,
                               size / 4));
      ASSERT_OK(downloads.Download(static_cast<char*>(down->data()) + at,
                                   second + at, size / 4));
    }
    ASSERT_OK(uploads.Upload(first, nullptr, Bytes(0)));
    ASSERT_OK(uploads.Synchronize());
    ASSERT_OK(downloads.Synchronize());
  }
  EXPECT_EQ(std::string(static_cast<char*>(down->data()), 1 << 20),
            std::string(1 << 20, '\x09'));
  ASSERT_OK(device_->Download(down->data(), first, size));
  EXPECT_EQ(std::string(static_cast<char*>(down->data()), 1 << 20),
            std::string(1 << 20, '\5'));
}

TEST_P(DeviceContractTest, FinishesCopiesWhenTheirQueueEnds) {
  const Bytes size = 4_MiB;
  auto buffer = device_->Allocate(size);
  auto host = device_->AllocateHost(size);
  ASSERT_OK(buffer);
  ASSERT_OK(host);
  std::memset(host->data(), 6, 4 << 20);
  {
    auto queue = device_->MakeCopyQueue();
    ASSERT_OK(queue);
    ASSERT_OK((*queue)->Upload(buffer->data(), host->data(), size));
  }
  std::memset(host->data(), 0, 4 << 20);
  ASSERT_OK(device_->Download(host->data(), buffer->data(), size));
  EXPECT_EQ(std::string(static_cast<char*>(host->data()), 4 << 20),
            std::string(4 << 20, '\6'));
}

// Each step overwrites what the one before it has to have read.
TEST_P(DeviceContractTest, QueuesAndTheDeviceWaitForEachOthersEvents) {
  const Bytes size = 4_MiB;
  auto buffer = device_->Allocate(size);
  auto host = device_->AllocateHost(size * 2);
  ASSERT_OK(buffer);
  ASSERT_OK(host);
  char* const first = static_cast<char*>(host->data());
  char* const second = first + size.count();
  {
    auto up = device_->MakeCopyQueue();
    auto down = device_->MakeCopyQueue();
    auto filled = device_->MakeEvent();
    auto left = device_->MakeEvent();
    auto returned = device_->MakeEvent();
    ASSERT_OK(up);
    ASSERT_OK(down);
    ASSERT_OK(filled);
    ASSERT_OK(left);
    ASSERT_OK(returned);
    // The events serve in every round.
    for (int round = 1; round <= 3; ++round) {
      ASSERT_OK(device_->Fill(buffer->data(), static_cast<unsigned char>(round),
                              size));
      ASSERT_OK((*filled)->Set());
      ASSERT_OK((*down)->WaitFor(**filled));
      ASSERT_OK((*down)->Download(first, buffer->data(), size));
      ASSERT_OK((*down)->Set(**left));
      ASSERT_OK(device_->WaitFor(**left));
      ASSERT_OK(device_->Fill(buffer->data(), 99, size));
      ASSERT_OK((*filled)->Set());
      ASSERT_OK((*up)->WaitFor(**filled));
      ASSERT_OK((*up)->Upload(buffer->data(), first, size));
      ASSERT_OK((*up)->Set(**returned));
      ASSERT_OK(device_->WaitFor(**returned));
      ASSERT_OK(device_->Synchronize());
      EXPECT_TRUE(*(*returned)->Reached());
      EXPECT_GE((*returned)->Since(**left).value_or(Nanoseconds(-1)),
                Nanoseconds(0));
      ASSERT_OK(device_->Download(second, buffer->data(), size));
      EXPECT_EQ(std::string(second, 4 << 20),
                std::string(4 << 20, static_cast<char>(round)));
    }
  }
}

TEST_P(DeviceContractTest, ScalesValues) {
  for (const std::int64_t count : {1, 1000, 8192, 100'001}) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::vector<float> expected;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 1000) - 500;
      expected.push_back(values[i] * -0.5F);
    }
    const Bytes size(count * static_cast<std::int64_t>(sizeof(float)));
    auto buffer = device_->Allocate(size);
    ASSERT_OK(buffer);
    ASSERT_OK(device_->Upload(buffer->data(), values.data(), size));
    ASSERT_OK(
        device_->Scale(static_cast<float*>(buffer->data()), count, -0.5F));
    ASSERT_OK(device_->Download(values.data(), buffer->data(), size));
    EXPECT_EQ(values, expected);
  }
  EXPECT_TRUE(device_->Scale(nullptr, 0, 2.0F));
}

// Two chains of parts that share no memory, the second one without anything
// before it, and a part that follows both.
TEST_P(DeviceContractTest, KeepsTheOrderOfCapturedPartsThatFollowEachOther) {
  if (!device_->can_capture() || !GetParam().computes) {
    GTEST_SKIP() << "captures nothing";
  }
  constexpr std::int64_t kCount = 1 << 16;
  std::vector<float> values(2 * kCount, 1.0F);
  const Bytes bytes(std::ssize(values) * std::int64_t{sizeof(float)});
  const auto buffer = device_->Allocate(bytes);
  ASSERT_OK(buffer);
  auto* const x = static_cast<float*>(buffer->data());
  float* const y = x + kCount;
  const auto scale = [&](float* at, float factor) {
    return [this, at, factor] { return device_->Scale(at, kCount, factor); };
  };
  // Products before it are lost in the first half, and those after it count.
  const auto fill = [&](float* at) {
    return [this, at, bytes] { return device_->Fill(at, 0x40, bytes / 4); };
  };
  const float filled = std::bit_cast<float>(0x40404040);
  const auto both = [&]() -> Status {
    UCUDNN_RETURN_IF_ERROR(device_->Scale(x, kCount, 11));
    return device_->Scale(y, kCount, 11);
  };
  const std::vector<CapturePart> parts = {
      {scale(x, 2)},      {fill(x), {0}},     {scale(y, 3)}, {fill(y), {2}},
      {scale(x, 5), {1}}, {scale(y, 7), {3}}, {both, {4, 5}}};
  // Once before, as callers do.
  for (const CapturePart& part : parts) ASSERT_TRUE(part.work());
  ASSERT_TRUE(device_->Upload(x, values.data(), bytes));
  auto work = device_->CaptureParts(parts);
  ASSERT_TRUE(work) << work.error().message;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(device_->Upload(x, values.data(), bytes));
    ASSERT_TRUE((*work)->Enqueue());
  }
  std::vector<float> result(values.size());
  ASSERT_TRUE(device_->Download(result.data(), x, bytes));
  for (std::int64_t i = 0; i < 2 * kCount; ++i) {
    const bool in_x = i < kCount;
    const float before = i % kCount < kCount / 2 ? filled : in_x ? 2.0F : 3.0F;
    ASSERT_EQ(result[static_cast<std::size_t>(i)],
              before * (in_x ? 5.0F : 7.0F) * 11.0F)
        << i;
  }
}

TEST_P(DeviceContractTest, HasAModelThatCanBeMeasured) {
  if (!GetParam().computes) GTEST_SKIP() << "it replays what was measured";
  const DeviceModelOptions options = {
      .repeats = 1, .copy = 1_MiB, .channels = 64, .max_batch = BatchSize(4)};
  const auto model = MeasureDeviceModel(*device_, options, std::stop_token());
  ASSERT_OK(model);
  EXPECT_TRUE(Validate(*model));
  EXPECT_EQ(model->name, ToString(device_->info().kind));
  EXPECT_EQ(model->memory, device_->info().kind.memory);
  EXPECT_GT(model->launch, Nanoseconds(0));
  EXPECT_GT(model->both_ways_rate, 0);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_CODE(Code::kCancelled,
              MeasureDeviceModel(*device_, options, stopped.get_token()));
}

TEST_P(DeviceContractTest, CallsUnsupportedConvolutionsUnimplemented) {
  if (!GetParam().unsupported) GTEST_SKIP() << "it supports every convolution";
  const ConvProblem& problem = *GetParam().unsupported;
  EXPECT_CODE(Code::kUnimplemented,
              device_->ListAlgorithms(problem, BatchSize(2)));
}

}  // namespace ucudnn::test
