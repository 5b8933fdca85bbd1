#include "base/service/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

TEST(SharedLibraryTest, NamesEveryLibraryThatItDidNotFind) {
  const auto library = SharedLibrary::Open(
      {"libno-such-thing.so.2", "libno-such-thing.so.1"}, {"/nowhere"});
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, Code::kUnavailable);
  EXPECT_THAT(
      library.error().message,
      HasSubstr("libno-such-thing.so.2 or libno-such-thing.so.1 was not "
                "found (libno-such-thing.so.2: cannot open"));
}

TEST(SharedLibraryTest, SaysWhyAnExistingLibraryCannotBeLoaded) {
  const std::string path = ::testing::TempDir() + "libucudnn-broken.so";
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("no library", file);
  std::fclose(file);
  const auto library =
      SharedLibrary::Open({"libucudnn-broken.so"}, {::testing::TempDir()});
  ASSERT_FALSE(library);
  EXPECT_THAT(library.error().message,
              HasSubstr("libucudnn-broken.so: file too short"));
  std::remove(path.c_str());
}

TEST(SharedLibraryTest, FindsFunctionsAndTellsWhichAreMissing) {
  const auto library = SharedLibrary::Open({"libm.so.6"}, {});
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_NE(library->Find("cos"), nullptr);
  EXPECT_EQ(library->Find("cosecans_of_ucudnn"), nullptr);
}

}  // namespace
}  // namespace ucudnn
