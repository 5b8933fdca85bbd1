// deploy/certificates.sh: what it makes is what coordinators read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "coordinator/security/certificate.h"
#include "coordinator/security/tokens.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CertificatesScriptTest : public ::testing::Test {
 protected:
  test::Finished Script(std::vector<std::string> words) const {
    words.insert(words.begin(), test::ScriptPath("certificates.sh"));
    words.insert(words.end(), {"--dir", folder_ / "my certs"});
    return test::Run(words);
  }
  // Of the file that the script says it made.
  std::string Made(const std::vector<std::string>& words) const {
    const test::Finished done = Script(words);
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_THAT(done.err, IsEmpty());
    return done.out.substr(0, done.out.find('\n'));
  }
  void Init() const { Made({"init", "--cluster", "rack7"}); }
  std::string In(const std::string& name) const {
    return folder_ / ("my certs/" + name);
  }
  std::set<std::string> Revoked() const {
    return ReadRevoked(test::FileText(In("revoked.pem")),
                       test::FileText(In("ca.crt")))
        .value();
  }
  static CertificateFacts FactsIn(const std::string& path) {
    return FactsOf(*ParseCertificate(test::FileText(path)).value()).value();
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat found {};
    EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
    return found.st_mode & 0777U;
  }

  test::TemporaryFolder folder_;
};

TEST_F(CertificatesScriptTest, NamesWhoseACertificateIsAndUntilWhen) {
  Init();
  const std::string path =
      Made({"issue", "agent", "gpu=1+2_a", "--until", "2040-05-06 07:08 UTC"});
  EXPECT_EQ(path, In("agent-gpu=1+2_a.crt"));
  const CertificateFacts facts = FactsIn(path);
  EXPECT_EQ(facts.principal, (Principal{"rack7", Role::kAgent, "gpu=1+2_a"}));
  EXPECT_EQ(facts.expires_ms, 2'219'900'880'000);
}

TEST_F(CertificatesScriptTest, KeepsKeysFromOthers) {
  Init();
  Made({"issue", "viewer", "v"});
  EXPECT_EQ(ModeOf(In("ca.key")), 0600U);
  EXPECT_EQ(ModeOf(In("viewer-v.key")), 0600U);
  EXPECT_EQ(ModeOf(In("ca.crt")), 0644U);
  EXPECT_EQ(ModeOf(In("viewer-v.crt")), 0644U);
  EXPECT_EQ(ModeOf(In("revoked.pem")), 0644U);
}

TEST_F(CertificatesScriptTest, RevokesWhatItIssued) {
  Init();
  EXPECT_THAT(Revoked(), IsEmpty());
  const std::string one = Made({"issue", "job", "one"});
  const std::string old = Made({"issue", "job", "old", "--until", "yesterday"});
  const std::string two = Made({"issue", "job", "two"});
  Made({"revoke", one});
  Made({"revoke", old});
  EXPECT_THAT(Revoked(),
              UnorderedElementsAre(FactsIn(one).serial, FactsIn(old).serial));
}

TEST_F(CertificatesScriptTest, ReplacesOneThatIsGoodOnlyToRenewIt) {
  Init();
  const std::string path = Made({"issue", "agent", "n"});
  const std::string first = FactsIn(path).serial;
  const test::Finished again = Script({"issue", "agent", "n"});
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("--renew replaces it"));
  EXPECT_EQ(FactsIn(path).serial, first);
  Made({"issue", "agent", "n", "--renew"});
  const std::string second = FactsIn(path).serial;
  EXPECT_NE(second, first);
  // The first one is listed still, and can be revoked.
  const std::string listed = Script({"list"}).out;
  EXPECT_THAT(listed, HasSubstr("the authority"));
  const std::size_t line = listed.find(" agent/n");
  const std::size_t file = listed.find(In("issued/"), line);
  ASSERT_NE(file, std::string::npos) << listed;
  const std::string old = listed.substr(file, listed.find('\n', file) - file);
  Made({"revoke", old});
  EXPECT_THAT(Revoked(), UnorderedElementsAre(first));
  EXPECT_THAT(Script({"list"}).out, HasSubstr("revoked"));
  Made({"revoke", path});
  Made({"issue", "agent", "n"});
}

TEST_F(CertificatesScriptTest, RevokesNothingOfOthers) {
  Init();
  const test::TemporaryFolder other;
  const std::string script = test::ScriptPath("certificates.sh");
  ASSERT_EQ(
      test::Run({script, "init", "--cluster", "rack7", "--dir", other.path()})
          .status,
      0);
  const test::Finished foreign = Script({"revoke", other / "ca.crt"});
  EXPECT_EQ(foreign.status, 1);
  EXPECT_THAT(foreign.err, HasSubstr("was not issued by"));
  EXPECT_EQ(Script({"revoke", In("nobody.crt")}).status, 1);
  EXPECT_THAT(Revoked(), IsEmpty());
}

TEST_F(CertificatesScriptTest, AddsTokensToAFile) {
  const std::string file = folder_ / "tokens";
  const std::string bob = Made({"token", "viewer", "bob", "--tokens", file});
  const std::string eve = Made({"token", "admin", "eve", "--tokens", file});
  EXPECT_EQ(ModeOf(file), 0600U);
  const Tokens tokens = ParseTokens(test::FileText(file)).value();
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens.at(HashOf(bob)), (Principal{"", Role::kViewer, "bob"}));
  EXPECT_EQ(tokens.at(HashOf(eve)), (Principal{"", Role::kAdmin, "eve"}));
}

TEST_F(CertificatesScriptTest, SaysWhatItAccepts) {
  const test::Finished early = Script({"issue", "viewer", "v"});
  EXPECT_EQ(early.status, 1);
  EXPECT_THAT(early.err, HasSubstr("there is no ca.crt"));
  Init();
  const struct {
    std::vector<std::string> words;
    int status;
    const char* says;
  } cases[] = {
      {{"init", "--cluster", "rack8"}, 1, "has an authority already"},
      {{"init", "--cluster", "a b"}, 2, "--cluster is 'a b'"},
      {{"issue", "nurse", "n"}, 2, "there is no role 'nurse'"},
      {{"issue", "viewer", "a/b"}, 2, "the name is 'a/b'"},
      {{"issue", "viewer"}, 2, "issue ROLE NAME"},
      {{"issue", "coordinator", "c"}, 2, "--host"},
      {{"issue", "coordinator", "c", "--host", "a_b,c/d"},
       2,
       "--host is 'c/d'"},
      {{"issue", "viewer", "v", "--host", "h"}, 2, "only a coordinator"},
      {{"issue", "viewer", "v", "--days", "0"}, 2, "--days is '0'"},
      {{"issue", "viewer", "v", "--until", "some day"}, 2, "--until"},
      {{"token", "coordinator", "c", "--tokens", "t"}, 2, "have no tokens"},
      {{"token", "viewer", "v"}, 2, "--tokens FILE"},
      {{"--what", "x"}, 2, "there is no option --what"},
  };
  for (const auto& c : cases) {
    const test::Finished done = Script(c.words);
    EXPECT_EQ(done.status, c.status) << c.says;
    EXPECT_THAT(done.err, HasSubstr(c.says));
    EXPECT_THAT(done.out, IsEmpty());
  }
}

}  // namespace
}  // namespace ucudnn
