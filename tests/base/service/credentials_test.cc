#include "base/service/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

class CredentialsTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text,
                   int mode = 0600) const {
    UCUDNN_CHECK(ReplaceFile(folder_ / name, text, mode).has_value());
    return folder_ / name;
  }

  test::TemporaryFolder folder_;
};

TEST_F(CredentialsTest, ComeFromTheEnvironment) {
  const CredentialFiles files = CredentialsFrom(
      [](const std::string& name) -> std::optional<std::string> {
        if (name == "UCUDNN_KEY") return std::nullopt;
        return "/" + name;
      });
  EXPECT_EQ(files.ca, "/UCUDNN_CA");
  EXPECT_EQ(files.cert, "/UCUDNN_CERT");
  EXPECT_EQ(files.key, "");
  EXPECT_EQ(files.token, "/UCUDNN_TOKEN_FILE");
}

TEST_F(CredentialsTest, GoTogether) {
  const std::string ca = File("ca", "c");
  const std::string key = File("key", "k");
  EXPECT_TRUE(CheckCredentials({}));
  EXPECT_TRUE(CheckCredentials({ca, "", "", ""}));
  EXPECT_TRUE(CheckCredentials({ca, ca, key, ""}));
  for (const CredentialFiles& wrong :
       {CredentialFiles{ca, ca, "", ""}, CredentialFiles{ca, "", key, ""},
        CredentialFiles{"", ca, key, ""},
        CredentialFiles{folder_ / "none", "", "", ""}}) {
    const Status checked = CheckCredentials(wrong);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
  }
}

TEST_F(CredentialsTest, LeaveNoHostInPlaintext) {
  const CredentialFiles token = {"", "", "", "/token"};
  EXPECT_TRUE(CheckTokenStaysSecret(token, {"127.0.0.1:1", "localhost:2"}));
  EXPECT_TRUE(CheckTokenStaysSecret({}, {"coord-1:1"}));
  EXPECT_TRUE(CheckTokenStaysSecret({"/ca", "", "", "/token"}, {"coord-1:1"}));
  const Status sent = CheckTokenStaysSecret(token, {"[::1]:1", "coord-1:1"});
  ASSERT_FALSE(sent);
  EXPECT_THAT(sent.error().message, HasSubstr("/token"));
  EXPECT_THAT(sent.error().message, HasSubstr("coord-1:1 in plaintext"));
}

TEST_F(CredentialsTest, AreSecrets) {
  const std::string ca = File("ca", "c");
  const std::string key = File("key", "k", 0604);
  const Status checked = CheckCredentials({ca, ca, key, ""});
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("its mode is 0604"));
  EXPECT_TRUE(CheckCredentials({ca, ca, File("group", "k", 0640), ""}));
}

TEST_F(CredentialsTest, ReadsATokenOfOneLine) {
  EXPECT_EQ(ReadToken({"", "", "", File("t", "abc\n")}).value(), "abc");
  EXPECT_EQ(ReadToken({}).value(), "");
  for (const char* wrong : {"", "\n", "a\nb", "a b"}) {
    EXPECT_FALSE(ReadToken({"", "", "", File("t", wrong)})) << wrong;
  }
}

}  // namespace
}  // namespace ucudnn
