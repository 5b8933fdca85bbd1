#include "client/dropin/wire/grpc_status.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"

namespace ucudnn {
namespace {

// A header with a name of its own; `first` says whether it is to be kept.
std::string Header(const std::string& name, const std::string& value,
                   char first = '\0') {
  const auto text = [](const std::string& t) {
    return std::string(1, static_cast<char>(t.size())) + t;
  };
  return std::string(1, first) + text(name) + text(value);
}

GrpcStatus Read(const std::string& block) {
  GrpcStatus status;
  ReadGrpcStatus(block, &status);
  return status;
}

TEST(GrpcStatusTest, ReadsCodeAndMessageAmongOtherHeaders) {
  const std::string block =
      std::string("\x20") +                           // a table of no size
      "\x88" +                                        // :status 200
      std::string("\x5f\x10") + "application/grpc" +  // content-type
      std::string("\x0f\x0d\x02") + "17" +            // content-length
      Header("grpc-status", "7", '\x40') +
      Header("grpc-message", "agent n may not: %C3%A9%", '\x10');
  EXPECT_EQ(Read(block),
            (GrpcStatus{Code::kPermissionDenied, "agent n may not: \u00e9%"}));
}

TEST(GrpcStatusTest, TakesCodesThatGrpcHas) {
  EXPECT_EQ(Read(Header("grpc-status", "0")).code, Code::kOk);
  EXPECT_EQ(Read(Header("grpc-status", "16")).code, Code::kUnauthenticated);
  for (const char* odd : {"17", "-1", "", "7x", "99999999999"}) {
    EXPECT_EQ(Read(Header("grpc-status", odd)).code, Code::kUnknown) << odd;
  }
}

TEST(GrpcStatusTest, QuotesMessagesAsPlainText) {
  const GrpcStatus status =
      Read(Header("grpc-message", "%00%0A%FF" + std::string("\x1b[2J")));
  EXPECT_TRUE(IsPlainText(status.message));
  EXPECT_EQ(status.message, "\\x00\\x0A\\xFF\\x1B[2J");
}

TEST(GrpcStatusTest, SkipsWhatIsHuffmanCoded) {
  const std::string coded("\0\x8bgrpc-status\x81\x1f", 15);
  EXPECT_EQ(Read(coded + Header("grpc-status", "5")).code, Code::kNotFound);
}

TEST(GrpcStatusTest, EndsWhereABlockIsCutShort) {
  const std::string whole = Header("grpc-message", "m") +
                            Header("grpc-status", "5", '\x40') +
                            std::string("\xff\x80\x01", 3);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const GrpcStatus status = Read(whole.substr(0, size));
    EXPECT_TRUE(status.code == Code::kOk || status.code == Code::kNotFound);
  }
  for (const std::string& odd :
       {std::string("\xff\xff\xff\xff\xff\xff"), std::string("\x0f"),
        std::string("\0\x7f\xff\xff\xff\xff\xff", 7)}) {
    EXPECT_EQ(Read(odd), GrpcStatus());
  }
}

}  // namespace
}  // namespace ucudnn
