#include "base/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/files/file.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kNetworkHeader[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n";

std::string NetworkError(const std::string& text) {
  const auto network = ParseNetworkCsv(text, "net", "n.csv");
  if (network) return "no error";
  EXPECT_EQ(network.error().code, Code::kInvalidArgument);
  return network.error().message;
}

TEST(NetworkTest, ReadsGeometriesInOrder) {
  const auto network = ParseNetworkCsv(std::string(kNetworkHeader) +
                                           "conv1,3,227,200,96,11,9,1,2,4,3,1\n"
                                           "conv2,96,27,27,256,5,5,2,2,1,1,2\n",
                                       "net", "n.csv");
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_EQ(network->name, "net");
  ASSERT_THAT(network->layers, SizeIs(2));
  const ConvLayer& conv1 = network->layers[0];
  EXPECT_EQ(conv1.name, "conv1");
  EXPECT_FALSE(conv1.needs_input_gradient);
  EXPECT_EQ(conv1.geometry, (ConvGeometry{.channels = 3,
                                          .filters = 96,
                                          .input = {1, 227, 200},
                                          .filter = {1, 11, 9},
                                          .padding = {0, 1, 2},
                                          .stride = {1, 4, 3}}));
  EXPECT_TRUE(network->layers[1].needs_input_gradient);
  EXPECT_EQ(network->layers[1].geometry.groups, 2);
}

TEST(NetworkTest, ReadsOptionalColumns) {
  const auto network = ParseNetworkCsv(
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups,D,T,pad_d,"
      "stride_d,dilation_d,dilation_h,dilation_w,transposed,"
      "needs_input_gradient\n"
      "a,3,9,9,4,3,3,1,1,1,1,1,8,3,1,2,1,1,1,0,0\n"
      "b,4,9,9,4,3,3,2,3,1,1,1,,,,,,2,3,1,0\n",
      "net", "n.csv");
  ASSERT_TRUE(network) << network.error().message;
  const ConvGeometry& deep = network->layers[0].geometry;
  EXPECT_EQ(deep.spatial_dims, 3);
  EXPECT_EQ(deep.input, (Spatial{8, 9, 9}));
  EXPECT_EQ(deep.stride, (Spatial{2, 1, 1}));
  const ConvLayer& flat = network->layers[1];
  EXPECT_EQ(flat.geometry.spatial_dims, 2);
  EXPECT_EQ(flat.geometry.dilation, (Spatial{1, 2, 3}));
  EXPECT_TRUE(flat.transposed);
  EXPECT_FALSE(flat.needs_input_gradient);
}

TEST(NetworkTest, NamesPlaceValueAndWhatIsAccepted) {
  const std::vector<std::string> columns = {
      "C",     "H",     "W",        "K",        "R",     "S",
      "pad_h", "pad_w", "stride_h", "stride_w", "groups"};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (const std::string bad :
         {"-1", "", "x", "1.5", "2147483649", "99999999999999999999", "nan"}) {
      std::string row = "conv1";
      for (std::size_t j = 0; j < columns.size(); ++j) {
        row += "," + (i == j ? bad : std::string("1"));
      }
      EXPECT_THAT(
          NetworkError(kNetworkHeader + row),
          AllOf(StartsWith(fmt::format("n.csv:2: column '{}': '{}' is not",
                                       columns[i], bad)),
                HasSubstr("to 2147483648")));
    }
    std::string without = kNetworkHeader;
    without.replace(without.find("," + columns[i] + (i < 10 ? "," : "\n")),
                    columns[i].size() + 1, ",zz");
    EXPECT_THAT(NetworkError(without),
                HasSubstr("no column '" + columns[i] + "'"));
  }
}

TEST(NetworkTest, RefusesTablesThatAreNotNetworks) {
  const std::string header = kNetworkHeader;
  const std::string row = "conv1,3,9,9,4,3,3,1,1,1,1,1\n";
  EXPECT_THAT(NetworkError(""), HasSubstr("it is empty"));
  EXPECT_THAT(NetworkError(header), HasSubstr("there is no row"));
  EXPECT_THAT(NetworkError(header + row + row),
              AllOf(StartsWith("n.csv:3: column 'name': 'conv1'"),
                    HasSubstr("name of a row above")));
  EXPECT_THAT(NetworkError(header + ",3,9,9,4,3,3,1,1,1,1,1\n"),
              HasSubstr("not a name"));
  EXPECT_THAT(NetworkError("C," + header), HasSubstr("column 'C' twice"));
  EXPECT_THAT(NetworkError(header + "a,3,9,9,4,3,3,1,1,1,1,2\n"),
              AllOf(StartsWith("n.csv:2: "), HasSubstr("groups is 2")));
  EXPECT_THAT(NetworkError(header + "a,3,9,9,4,12,3,1,1,1,1,1\n"),
              HasSubstr("more than the padded"));
}

TEST(NetworkTest, RefusesMoreLayersAndLongerNamesThanAnyNetworkHas) {
  std::string csv = "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n";
  const std::string header = csv;
  for (int i = 0; i <= 10'000; ++i) {
    csv += fmt::format("c{},1,1,1,1,1,1,0,0,1,1,1\n", i);
  }
  const auto many = ParseNetworkCsv(csv, "net", "net.csv");
  ASSERT_FALSE(many);
  EXPECT_THAT(many.error().message,
              HasSubstr("more than 10000 convolutions, the most accepted"));
  const auto longer = ParseNetworkCsv(
      header + std::string(513, 'n') + ",1,1,1,1,1,1,0,0,1,1,1\n", "net",
      "net.csv");
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message,
              HasSubstr("513 bytes long; a name of up to 512 is accepted"));
}

TEST(NetworkTest, RequiresAllOptionalColumnsOfAGroup) {
  std::string header = kNetworkHeader;
  header.pop_back();
  EXPECT_THAT(NetworkError(header + ",dilation_w\n"),
              HasSubstr("'dilation_h'"));
  EXPECT_THAT(NetworkError(header + ",T\n"), HasSubstr("no column 'D'"));
  const std::string deep = header + ",D,T,pad_d,stride_d,dilation_d\n";
  const std::string row = "a,3,9,9,4,3,3,1,1,1,1,1,";
  EXPECT_THAT(NetworkError(deep + row + ",3,,,\n"),
              HasSubstr("column 'T': '3' is given, but the row's D is empty"));
  EXPECT_THAT(NetworkError(deep + row + "4,,0,1,1\n"),
              HasSubstr("column 'T': ''"));
  EXPECT_THAT(NetworkError(header + ",transposed\n" + row + "2\n"),
              HasSubstr("from 0 to 1"));
}

Network RandomNetwork(std::mt19937* random) {
  const auto below = [&](std::uint32_t n) {
    return std::int64_t((*random)() % n);
  };
  Network network{"net", {}};
  const bool all_flat = below(2) == 0;
  const bool all_default = below(2) == 0;
  const std::int64_t layers = 1 + below(6);
  for (int i = 0; i < layers; ++i) {
    ConvLayer layer;
    layer.name = fmt::format("l,\"{}", i);
    ConvGeometry& g = layer.geometry;
    g.spatial_dims = all_flat || below(2) == 0 ? 2 : 3;
    g.images = all_default ? 1 : 1 + below(3);
    g.groups = 1 + below(3);
    g.channels = g.groups * (1 + below(9));
    g.filters = g.groups * (1 + below(9));
    for (std::size_t d = g.spatial_dims == 3 ? 0 : 1; d < 3; ++d) {
      g.filter[d] = 1 + below(4);
      g.padding[d] = below(4);
      g.stride[d] = 1 + below(3);
      g.dilation[d] = all_default ? 1 : 1 + below(3);
      g.input[d] = 10 + below(20);
    }
    layer.transposed = !all_default && below(3) == 0;
    layer.needs_input_gradient = all_default ? i > 0 : below(2) == 0;
    network.layers.push_back(layer);
  }
  return network;
}

TEST(NetworkTest, ReadsBackWhatItWrites) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const Network network = RandomNetwork(&random);
    const auto again = ParseNetworkCsv(ToCsv(network), "net", "again");
    ASSERT_TRUE(again) << again.error().message << "\n" << ToCsv(network);
    ASSERT_EQ(*again, network) << ToCsv(network);
  }
}

TEST(NetworkTest, ReadsRealNetworks) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::DataPath("networks"))) {
    const std::string text = ReadFile(entry.path(), 1_MiB).value();
    const auto network = ParseNetworkCsv(text, "net", entry.path().string());
    ASSERT_TRUE(network) << network.error().message;
    EXPECT_EQ(ToCsv(*network), text) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 16);
}

TEST(NetworkTest, ListsTheKernelsOfAnIteration) {
  const Network network{
      "net",
      {{.name = "a", .geometry = {}, .needs_input_gradient = false},
       {.name = "b", .geometry = {.filters = 2}, .transposed = true}}};
  std::vector<std::string> kernels;
  for (const Kernel& k : KernelsOf(network, Precision::kTf32, Layout::kNhwc)) {
    EXPECT_EQ(k.problem.precision, Precision::kTf32);
    EXPECT_EQ(k.problem.layout, Layout::kNhwc);
    kernels.push_back(
        fmt::format("{} {}={}", k.layer, Name(k.op), Name(k.problem.op)));
  }
  EXPECT_THAT(kernels,
              ::testing::ElementsAre(
                  "a forward=forward", "a backward_filter=backward_filter",
                  "b forward=backward_data", "b backward_data=forward",
                  "b backward_filter=backward_filter"));
}

}  // namespace
}  // namespace ucudnn
