// `ucudnn allocate` as people and scripts call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using nlohmann::json;
using test::Finished;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Three AlexNets of different mini-batches and limits.
constexpr char kJobs[] = R"([[jobs]]
name = "first"
network = "alexnet"
batch = 256
workspace_limit = "64MiB"

[[jobs]]
name = "second"
network = "alexnet"
batch = 128
workspace_limit = "8MiB"

[[jobs]]
name = "third"
network = "alexnet"
batch = 64
workspace_limit = 67108864
weight = 2

[kinds."NVIDIA H200/64sm"]
slurm = "h200_half"
)";

std::string File(const std::string& name, const std::string& text) {
  std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

Finished Allocate(const std::string& jobs, std::vector<std::string> flags) {
  std::vector<std::string> all = {
      test::ProgramPath("ucudnn"),
      "allocate",
      "--jobs",
      jobs,
      "--devices",
      "NVIDIA H200=2,NVIDIA H200/64sm=2,NVIDIA H200/32sm=2,NVIDIA H200/16sm=2"};
  for (const char* slice : {"", "_sm64", "_sm32", "_sm16"}) {
    all.push_back("--profile");
    all.push_back(
        test::DataPath(std::string("h200/alexnet_b256_pow2") + slice + ".csv"));
  }
  all.insert(all.end(), flags.begin(), flags.end());
  return test::Run(all);
}

json Answer(std::vector<std::string> flags = {}) {
  flags.insert(flags.end(), {"-o", "json"});
  const Finished run = Allocate(File("allocate_jobs.toml", kJobs), flags);
  EXPECT_EQ(run.status, 0) << run.err;
  return json::parse(run.out);
}

TEST(AllocateTest, AllotsMeasuredDevicesToJobs) {
  const json answer = Answer();
  EXPECT_EQ(answer["goal"], "share");
  EXPECT_EQ(answer["optimal"], true);
  EXPECT_EQ(answer["objective"], answer["bound"]);
  ASSERT_EQ(answer["jobs"].size(), 3U);
  double least = 1e9;
  std::int64_t devices = 0;
  for (const json& job : answer["jobs"]) {
    std::int64_t images = 0;
    double slowest = 0;
    for (const json& rank : job["ranks"]) {
      images += rank["batch"].get<std::int64_t>();
      slowest = std::max(slowest, rank["time_us"].get<double>());
    }
    EXPECT_EQ(images, job["batch"]);
    EXPECT_DOUBLE_EQ(slowest, job["step_us"]);
    EXPECT_NEAR(job["share"].get<double>(),
                job["alone_us"].get<double>() / slowest, 1e-9);
    least = std::min(least,
                     job["share"].get<double>() / job["weight"].get<double>());
    for (const json& kind : job["devices"]) {
      devices += kind["count"].get<std::int64_t>();
    }
  }
  EXPECT_NEAR(answer["objective"].get<double>(), least, 1e-9);
  std::int64_t left = 0;
  for (const json& kind : answer["devices"]) {
    left += kind["left"].get<std::int64_t>();
  }
  EXPECT_EQ(devices + left, 8);
}

TEST(AllocateTest, EachGoalIsBestAtItsOwn) {
  const json fair = Answer();
  const json fast = Answer({"--goal", "throughput"});
  EXPECT_EQ(fast["goal"], "throughput");
  EXPECT_EQ(fast["optimal"], true);
  const auto measure = [](const json& answer) {
    double least = 1e9;
    double sum = 0;
    for (const json& job : answer["jobs"]) {
      const double share = job["share"].get<double>();
      least = std::min(least, share / job["weight"].get<double>());
      sum += share * job["weight"].get<double>();
    }
    return std::pair(least, sum);
  };
  EXPECT_GE(measure(fair).first, measure(fast).first - 1e-9);
  EXPECT_GE(measure(fast).second, measure(fair).second - 1e-9);
  EXPECT_NEAR(fast["objective"].get<double>(), measure(fast).second, 1e-9);
}

TEST(AllocateTest, ReadsTheSameJobsAsJson) {
  const std::string path = File("allocate_jobs.json", R"({"jobs":[
    {"name":"first","network":"alexnet","batch":256,
     "workspace_limit":"64MiB"},
    {"name":"second","network":"alexnet","batch":128,
     "workspace_limit":"8MiB"},
    {"name":"third","network":"alexnet","batch":64,
     "workspace_limit":67108864,"weight":2}],
    "kinds":{"NVIDIA H200/64sm":{"slurm":"h200_half"}}})");
  const Finished run = Allocate(path, {"-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out), Answer());
}

TEST(AllocateTest, PrintsSlurmOptionsWithTheClustersNames) {
  const Finished run =
      Allocate(File("allocate_jobs.toml", kJobs), {"--print", "slurm"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("sbatch --job-name=first --ntasks="),
                             HasSubstr("--gpus-per-task=nvidia_h200:1"),
                             HasSubstr("--gpus-per-task=h200_half:1")));
}

TEST(AllocateTest, PrintsKubernetesNodeSelectors) {
  const Finished run =
      Allocate(File("allocate_jobs.toml", kJobs), {"--print", "kubernetes"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("job: first"), HasSubstr("replicas: "),
                             HasSubstr("nvidia.com/gpu.product: NVIDIA-H200"),
                             HasSubstr("nvidia.com/gpu: 1")));
}

TEST(AllocateTest, PrintsATableForPeople) {
  const Finished run = Allocate(File("allocate_jobs.toml", kJobs), {});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("JOB"), HasSubstr("third"),
                    HasSubstr("least share 0."), HasSubstr("(optimal)")));
  EXPECT_THAT(run.err, IsEmpty());
}

TEST(AllocateTest, ExitsWith3IfTheDevicesDoNotSuffice) {
  std::string jobs = kJobs;
  jobs.insert(jobs.find("batch = 128"), "least_gpus = 8\n");
  const Finished run = Allocate(File("allocate_many.toml", jobs), {});
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("do not suffice for all jobs"));
  jobs.replace(jobs.find("least_gpus = 8"), 14, "least_gpus = 9");
  const Finished alone = Allocate(File("allocate_many.toml", jobs), {});
  EXPECT_EQ(alone.status, 3);
  EXPECT_THAT(alone.err, HasSubstr("job 'second' cannot run"));
}

struct Refused {
  const char* from;
  const char* to;
  const char* says;
};

TEST(AllocateTest, NamesWhatIsWrongWithTheJobs) {
  for (const auto& [from, to, says] : std::vector<Refused>{
           {"batch = 256", "batch = 0", "jobs[0].batch is 0"},
           {"batch = 256", "batch = ", "allocate_wrong.toml:4: "},
           {"batch = 256", "images = 256",
            "jobs[0]: unknown field 'images'; accepted: batch, batch_policy"},
           {"\"64MiB\"", "\"64 pounds\"", "jobs[0].workspace_limit"},
           {"\"second\"", "\"first\"", "a name that no other job has"},
           {"\"second\"", "\"a b\"", "jobs[1].name: 'a b'"},
           {"\"second\"", "\"$(reboot)\"", "jobs[1].name: '$(reboot)'"},
           {"weight = 2", "weight = 0", "jobs[2].weight"},
           {"h200_half", "a b", "kinds.'NVIDIA H200/64sm'.slurm: 'a b'"},
           {"\"alexnet\"", "\"other\"", "network 'other' was not measured"},
           {"[[jobs]]",
            "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a"
            ".a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a"
            ".a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1\n[[jobs]]",
            "allocate_wrong.toml:1: more than 64 dots"}}) {
    std::string jobs = kJobs;
    jobs.replace(jobs.find(from), std::string(from).size(), to);
    const Finished run = Allocate(File("allocate_wrong.toml", jobs), {});
    EXPECT_EQ(run.status, 2) << to;
    EXPECT_THAT(run.err, HasSubstr(says));
    EXPECT_THAT(run.out, IsEmpty());
  }
}

TEST(AllocateTest, NamesWhatIsWrongWithTheOptions) {
  const std::string jobs = File("allocate_jobs.toml", kJobs);
  const std::string profile = test::DataPath("h200/alexnet_b256_pow2.csv");
  const auto refusal = [&](const std::string& devices,
                           const std::vector<std::string>& more) {
    std::vector<std::string> flags = {test::ProgramPath("ucudnn"),
                                      "allocate",
                                      "--jobs",
                                      jobs,
                                      "--devices",
                                      devices,
                                      "--profile",
                                      profile};
    flags.insert(flags.end(), more.begin(), more.end());
    const Finished run = test::Run(flags);
    EXPECT_EQ(run.status, 2);
    return run.err;
  };
  EXPECT_THAT(refusal("NVIDIA H200", {}),
              HasSubstr("--devices: 'NVIDIA H200'; KIND=COUNT is accepted"));
  EXPECT_THAT(refusal("NVIDIA H200=x", {}), HasSubstr("'x'"));
  EXPECT_THAT(refusal("NVIDIA H200=1,NVIDIA H200=1", {}),
              HasSubstr("comes twice"));
  EXPECT_THAT(refusal("K80=1", {}),
              HasSubstr("no measurements of 'K80'; accepted: 'NVIDIA H200'"));
  EXPECT_THAT(refusal("NVIDIA H200=1", {"--goal", "best"}),
              HasSubstr("'best' is not a goal; one of share, throughput"));
  EXPECT_THAT(refusal("NVIDIA H200=1", {"--profile", profile}),
              HasSubstr("is in another file, too"));
}

TEST(AllocateTest, DoesNotTrustAKindThatLacksLayers) {
  const std::string partial =
      File("allocate_partial.csv",
           "device,network,layer,op,precision,layout,batch,algorithm,math,"
           "workspace_bytes,time_us\n"
           "fast,alexnet,conv1,forward,FP32,NCHW,1,GEMM,FMA,0,0.1\n");
  const Finished run = test::Run(
      {test::ProgramPath("ucudnn"), "allocate", "--jobs",
       File("allocate_jobs.toml", kJobs), "--devices", "NVIDIA H200=3,fast=3",
       "--profile", test::DataPath("h200/alexnet_b256_pow2.csv"), "--profile",
       partial});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("was measured on 'fast' without conv1 "
                                 "backward_data, which another kind has"));
}

}  // namespace
}  // namespace ucudnn
