// Questions over TLS to services of REST that check certificates as coordinators
// do, and to others. local_mode_test.cc has the real coordinator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "client/dropin/ask/ask_coordinator.h"
#include "client/dropin/ask/rest_call.h"
#include "coordinator/security/openssl.h"
#include "tests/client/dropin/ask/listener.h"
#include "tests/client/dropin/ask/rest_service.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using test::Certificates;
using test::Listener;
using test::RestService;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class TlsTest : public ::testing::Test {
 protected:
  // The error of a question; kOk if it was answered.
  Error Ask(const CredentialFiles& files, const std::string& address,
            std::chrono::milliseconds within = seconds(60)) {
    warnings_.clear();
    CoordinatorAsker asker({address}, {.credentials = files,
                                       .within = within,
                                       .warn = [this](const std::string& text) {
                                         warnings_.push_back(text);
                                       }});
    const auto known = asker.Ask("a kind", ConvProblem());
    return known ? Error{Code::kOk, ""} : known.error();
  }

  // A coordinator with the certificates that there are now, which checks those
  // of its callers unless it `takes_everybody`.
  std::unique_ptr<RestService> Coordinator(bool takes_everybody = false) const {
    const GuardFiles files = certificates_.guard();
    return std::make_unique<RestService>(
        R"({"measurements": [], "complete": []})", 200,
        std::make_unique<httplib::SSLServer>(
            files.cert.c_str(), files.key.c_str(),
            takes_everybody ? nullptr : files.ca.c_str()));
  }

  std::string File(const std::string& name, const std::string& text,
                   int mode = 0600) const {
    UCUDNN_CHECK(ReplaceFile(folder_ / name, text, mode).has_value());
    return folder_ / name;
  }

  Certificates certificates_;
  const test::TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(TlsTest, ShowsACertificate) {
  const auto coordinator = Coordinator();
  EXPECT_EQ(Ask(certificates_.Issue(Role::kJob, "j"), coordinator->address()),
            (Error{Code::kOk, ""}));
  EXPECT_THAT(coordinator->requests(), SizeIs(1));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TlsTest, ShowsAToken) {
  const auto coordinator = Coordinator(/*takes_everybody=*/true);
  CredentialFiles files = certificates_.ca();
  files.token = File("token", "word\n");
  EXPECT_EQ(Ask(files, coordinator->address()), (Error{Code::kOk, ""}));
  ASSERT_THAT(coordinator->requests(), SizeIs(1));
  EXPECT_EQ(coordinator->requests()[0].get_header_value("Authorization"),
            "Bearer word");
}

// Debian has libcurl with GnuTLS, too.
TEST_F(TlsTest, SpeaksByAnotherLibrary) {
  const auto curl = LoadCurl({"libcurl-gnutls.so.4"});
  ASSERT_TRUE(curl) << curl.error().message;
  const auto coordinator = Coordinator();
  const auto get = [&](const CredentialFiles& files) {
    return GetOverRest(
        *curl, {.address = fmt::format("127.0.0.1:{}", coordinator->port()),
                .path = "/",
                .credentials = files,
                .deadline = steady_clock::now() + seconds(60)});
  };
  CredentialFiles files = certificates_.Issue(Role::kJob, "j");
  const auto answer = get(files);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(*answer, HasSubstr("measurements"));
  const Certificates others;
  files.ca = others.ca().ca;
  EXPECT_EQ(get(files).error().code, Code::kFailedPrecondition);
}

TEST_F(TlsTest, ChecksTheCoordinatorsName) {
  const CredentialFiles job = certificates_.Issue(Role::kJob, "j");
  certificates_.RenewCoordinator({"localhost", "::1"});
  const auto coordinator = Coordinator();
  EXPECT_EQ(
      Ask(job, fmt::format("https://localhost:{}", coordinator->port()))
          .message,
      "");
  const Error other = Ask(job, coordinator->address());
  EXPECT_EQ(other.code, Code::kFailedPrecondition);
  EXPECT_THAT(
      other.message,
      AllOf(HasSubstr(coordinator->address()), HasSubstr("subject name"),
            HasSubstr("one for 127.0.0.1"), HasSubstr(job.ca)));
  EXPECT_THAT(warnings_, ElementsAre(other.message));
  // A common name is no alternative name.
  certificates_.RenewCoordinator({"10.0.0.1"});
  EXPECT_EQ(Ask(job, Coordinator()->address()).code, Code::kFailedPrecondition);
}

TEST_F(TlsTest, RefusesCoordinatorsOfAnotherAuthority) {
  const Certificates others;
  CredentialFiles foreign = certificates_.Issue(Role::kJob, "j");
  foreign.ca = others.ca().ca;
  const auto coordinator = Coordinator();
  const Error error = Ask(foreign, coordinator->address());
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("certificate is not accepted"),
                                   HasSubstr(foreign.ca)));
  EXPECT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(coordinator->requests(), IsEmpty());
}

TEST_F(TlsTest, RefusesACoordinatorWhoseCertificateExpired) {
  const CredentialFiles job = certificates_.Issue(Role::kJob, "j");
  certificates_.RenewCoordinator({"127.0.0.1"}, seconds(-1));
  const Error error = Ask(job, Coordinator()->address());
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message, HasSubstr("certificate has expired"));
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST_F(TlsTest, TellsThatItsCertificateIsRefused) {
  const auto coordinator = Coordinator();
  const CredentialFiles late =
      certificates_.Issue(Role::kJob, "late", seconds(-1));
  const Error expired = Ask(late, coordinator->address());
  EXPECT_EQ(expired.code, Code::kUnauthenticated) << expired.message;
  EXPECT_THAT(expired.message,
              AllOf(HasSubstr(late.cert), Not(HasSubstr("BEGIN"))));
  EXPECT_THAT(warnings_, SizeIs(1));

  const Certificates others;
  CredentialFiles foreign = others.Issue(Role::kJob, "j");
  foreign.ca = certificates_.ca().ca;
  const Error error = Ask(foreign, coordinator->address());
  EXPECT_EQ(error.code, Code::kUnauthenticated) << error.message;
  EXPECT_THAT(error.message, HasSubstr(foreign.cert));
  EXPECT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(coordinator->requests(), IsEmpty());
}

std::string WithPassphrase(const std::string& pem) {
  const BioPtr in = BioOf(pem);
  const OpensslPtr<EVP_PKEY, EVP_PKEY_free> key(
      PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
  const BioPtr out(BIO_new(BIO_s_mem()));
  UCUDNN_CHECK(PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(),
                                             EVP_aes_256_cbc(), "word", 4,
                                             nullptr, nullptr) == 1);
  return TextOf(out);
}

TEST_F(TlsTest, NamesTheFileThatIsWrong) {
  const CredentialFiles job = certificates_.Issue(Role::kJob, "j");
  const CredentialFiles other = certificates_.Issue(Role::kJob, "k");
  const auto coordinator = Coordinator();
  const std::string key = test::FileText(job.key);
  const std::string locked = File("locked", WithPassphrase(key));
  const auto wrong = [&](CredentialFiles files, const std::string& path,
                         const char* why) {
    const Error error = Ask(files, coordinator->address());
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(path), HasSubstr(why), Not(HasSubstr("BEGIN"))));
    EXPECT_THAT(warnings_, ElementsAre(error.message));
  };
  const auto with = [&](auto member, const std::string& path) {
    CredentialFiles files = job;
    files.*member = path;
    return files;
  };
  const std::string text = File("text", "no certificate");
  wrong(with(&CredentialFiles::ca, "/none"), "/none", "");
  wrong(with(&CredentialFiles::ca, text), text, "no authority");
  wrong(with(&CredentialFiles::cert, text), text, "are not a certificate");
  wrong(with(&CredentialFiles::key, text), text, "private key");
  wrong(with(&CredentialFiles::key, other.key), other.key, "private key");
  wrong(with(&CredentialFiles::key, locked), locked, "without a passphrase");
  const std::string open = File("open", key, 0644);
  wrong(with(&CredentialFiles::key, open), open, "0600 and 0640 are accepted");
  wrong(with(&CredentialFiles::key, ""), "", "only the certificate is given");
  wrong(with(&CredentialFiles::ca, ""), job.cert, "UCUDNN_CA");
  EXPECT_THAT(coordinator->requests(), IsEmpty());
}

TEST_F(TlsTest, SendsNoTokenInPlaintext) {
  CredentialFiles files;
  files.token = File("token", "secret\n");
  const Error error = Ask(files, "coord-1:7460");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("coord-1:7461 in plaintext"),
                                   Not(HasSubstr("secret"))));
}

TEST_F(TlsTest, TakesNewFilesOver) {
  const auto coordinator = Coordinator();
  CredentialFiles files = certificates_.Issue(Role::kJob, "j");
  const std::string right = test::FileText(files.cert);
  files.cert = File("cert", "not yet");
  auto now = steady_clock::time_point();
  CoordinatorAsker asker({coordinator->address()},
                         {.credentials = files,
                          .within = seconds(60),
                          .now = [&] { return now; }});
  EXPECT_FALSE(asker.Ask("a kind", ConvProblem()));
  File("cert", right);
  now += seconds(30);
  EXPECT_TRUE(asker.Ask("a kind", ConvProblem()));
}

TEST_F(TlsTest, TellsPlaintextFromTls) {
  const RestService plaintext("{}");
  const Error tls =
      Ask(certificates_.Issue(Role::kJob, "j"), plaintext.address());
  EXPECT_EQ(tls.code, Code::kFailedPrecondition);
  EXPECT_THAT(tls.message, HasSubstr("the TLS handshake fails"));
  EXPECT_THAT(warnings_, SizeIs(1));

  const Error none = Ask({}, Coordinator()->address());
  EXPECT_EQ(none.code, Code::kFailedPrecondition) << none.message;
  EXPECT_THAT(none.message, HasSubstr("UCUDNN_CA"));
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST_F(TlsTest, EndsInTimeWhereNobodyAnswersTheHandshake) {
  const Listener hanging;
  const auto start = steady_clock::now();
  const Error error = Ask(certificates_.Issue(Role::kJob, "j"),
                          "https://" + hanging.address(),
                          std::chrono::milliseconds(200));
  EXPECT_LT(steady_clock::now() - start, seconds(20));
  // On a busy machine the wait for the asking thread ends before its call.
  if (error.code != Code::kDeadlineExceeded) {
    EXPECT_EQ(error.code, Code::kUnavailable);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(hanging.address()), HasSubstr("timed out")));
  }
  EXPECT_THAT(warnings_, IsEmpty());  // it may answer another time
}

TEST_F(TlsTest, EndsInTimeWhereAFileCannotBeRead) {
  CredentialFiles files = certificates_.Issue(Role::kJob, "j");
  files.ca = folder_ / "pipe";
  ASSERT_EQ(mkfifo(files.ca.c_str(), 0600), 0);
  const Error error =
      Ask(files, "https://127.0.0.1:1", std::chrono::milliseconds(50));
  EXPECT_EQ(error.code, Code::kDeadlineExceeded);
  EXPECT_THAT(error.message, HasSubstr("takes too long"));
  // Lets the thread that was left behind end.
  std::ofstream(files.ca) << "x";
}

TEST_F(TlsTest, SaysNothingOfACoordinatorThatIsAway) {
  const test::ClosedPort closed;
  EXPECT_EQ(Ask(certificates_.Issue(Role::kJob, "j"),
                "https://" + closed.address())
                .code,
            Code::kUnavailable);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TlsTest, RefusesOldTls) {
  Listener listener;
  listener.Serve([files = certificates_.guard()](int connection) {
    const SslContextPtr context(SSL_CTX_new(TLS_server_method()));
    UCUDNN_CHECK(SSL_CTX_use_certificate_chain_file(context.get(),
                                                    files.cert.c_str()) == 1);
    UCUDNN_CHECK(SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(),
                                             SSL_FILETYPE_PEM) == 1);
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), TLS1_1_VERSION);
    const SslPtr session(SSL_new(context.get()));
    SSL_set_fd(session.get(), connection);
    EXPECT_NE(SSL_accept(session.get()), 1);
  });
  const Error error = Ask(certificates_.ca(), "https://" + listener.address());
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("the TLS handshake fails"),
                                   HasSubstr("version")));
}

}  // namespace
}  // namespace ucudnn
