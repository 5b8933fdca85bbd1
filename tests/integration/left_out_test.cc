// GPUs that an agent must leave out: `ucudnn devices` and its log say what they
// lack. On the fakes of NVIDIA's libraries (tests/support/fake_gpu).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/cluster.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LeftOutTest : public ::testing::Test {
 protected:
  LeftOutTest() { cluster_.StartCoordinators(); }

  // The GPU of an agent that finds its libraries in these folders.
  json Gpu(const std::vector<std::string>& folders,
           std::map<std::string, std::string> environment = {}) {
    for (const std::string& folder : folders) {
      environment["LD_LIBRARY_PATH"] += LibraryPath(folder) + ":";
    }
    const std::string id = fmt::format("node-{}", ++nodes_);
    environment.merge(Cluster::AgentEnvironment(id));
    Process agent({ProgramPath("ucudnn-agent"), "--coordinator",
                   cluster_.address(), "--id", id, "--cpu-threads", "1"},
                  cluster_.folder() / "log", environment);
    json gpu;
    EXPECT_TRUE(WaitUntil([&] {
      for (const json& device : cluster_.UcudnnJson({"devices"})) {
        if (device["agent_id"] == id && device["kind"].get<std::string>().find(
                                            "GPU/") != std::string::npos) {
          gpu = device;
        }
      }
      return !gpu.is_null();
    })) << cluster_.Log();
    table_ = cluster_.Ucudnn({"devices"}).out;
    EXPECT_EQ(agent.Stop(), 0);
    return gpu;
  }

  // Expects the GPU to be left out for this reason.
  void ExpectLack(const std::string& why,
                  const std::vector<std::string>& folders,
                  const std::map<std::string, std::string>& environment = {}) {
    const json gpu = Gpu(folders, environment);
    EXPECT_EQ(gpu["state"], "lost");
    EXPECT_THAT(gpu["state_reason"].get<std::string>(), HasSubstr(why));
    EXPECT_THAT(table_, HasSubstr(why));
    EXPECT_THAT(cluster_.Log(),
                AllOf(HasSubstr("event=gpu_left_out"), HasSubstr(why)));
  }

  Cluster cluster_;
  int nodes_ = 0;
  std::string table_;  // of `ucudnn devices`
};

TEST_F(LeftOutTest, NobodyWithCudnn8AndADriverOfCuda11Point4) {
  const json gpu = Gpu({"fake_old", "fake_nvml_r470"});
  EXPECT_EQ(gpu["state"], "idle");
  EXPECT_EQ(gpu["kind"], "Fake GPU/4u/1GiB/cudnn-8.9");
  EXPECT_THAT(gpu["driver"].get<std::string>(),
              ::testing::StartsWith("470.256.02, CUDA 11.4"));
}

TEST_F(LeftOutTest, GpusForWhichCudnnHasNoCode) {
  ExpectLack("cuDNN 8.0 or newer, but older than 8.8, is needed",
             {"fake_old", "fake_nvml_r470"}, {{"FAKE_GPU_CAPABILITY", "37"}});
  ExpectLack("its compute capability is 3.7", {"fake_gpu"},
             {{"FAKE_GPU_CAPABILITY", "37"}});
}

TEST_F(LeftOutTest, GpusOfOldDrivers) {
  ExpectLack(
      "the NVIDIA driver is 418.67 (CUDA 10.1); 470 or newer (CUDA "
      "11.4) is needed",
      {"fake_old", "fake_nvml_r470"},
      {{"FAKE_CUDA_VERSION", "10010"}, {"FAKE_DRIVER", "418.67"}});
  ExpectLack("libcuda.so.1 has no function cuDeviceGetUuid_v2",
             {"fake_bare", "fake_old"});
}

TEST_F(LeftOutTest, GpusWithoutCudnnOrWithAnOldOne) {
  const std::string driver = cluster_.folder() / "driver";
  std::filesystem::create_directory(driver);
  std::filesystem::create_symlink(LibraryPath("fake_old/libcuda.so.1"),
                                  driver + "/libcuda.so.1");
  ExpectLack("no cuDNN", {}, {{"LD_LIBRARY_PATH", driver}});
  // Version 8 without its parts, which would abort the process.
  std::filesystem::copy(LibraryPath("fake_old/libcudnn.so.8"), driver);
  ExpectLack("cuDNN is incomplete: " + driver + "/libcudnn_ops_infer.so.8 or",
             {}, {{"LD_LIBRARY_PATH", driver}});
  std::filesystem::remove(driver + "/libcudnn.so.8");
  ExpectLack(
      "cuDNN 7.6.5 was found at " + LibraryPath("fake_cudnn_7/libcudnn.so.7") +
          "; 8.0 or newer is needed",
      {}, {{"LD_LIBRARY_PATH", driver + ":" + LibraryPath("fake_cudnn_7")}});
}

}  // namespace
}  // namespace ucudnn::test
