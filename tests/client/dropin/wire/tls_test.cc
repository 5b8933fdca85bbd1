// Questions over TLS to gRPC servers as coordinators are, and to servers that
// are not. local_mode_test.cc has the real coordinator.

#include "client/dropin/wire/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "client/dropin/wire/ask_coordinator.h"
#include "client/dropin/wire/openssl.h"
#include "coordinator/security/openssl.h"
#include "tests/client/dropin/wire/listener.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"
#include "tests/support/tls_server.h"

namespace ucudnn {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using test::Certificates;
using test::Listener;
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

  // A coordinator with the certificates that there are now.
  std::unique_ptr<ScriptedCoordinator> Coordinator() const {
    auto coordinator = std::make_unique<ScriptedCoordinator>(
        test::MutualTlsServerCredentials(certificates_));
    coordinator->get_problem_profile =
        [](const auto&) -> Result<v1::ProblemProfile> {
      return v1::ProblemProfile();
    };
    return coordinator;
  }

  std::string File(const std::string& name, const std::string& text,
                   int mode = 0600) const {
    UCUDNN_CHECK(ReplaceFile(folder_ / name, text, mode).has_value());
    return folder_ / name;
  }

  const Certificates certificates_;
  const test::TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(TlsTest, ShowsACertificate) {
  const auto coordinator = Coordinator();
  EXPECT_EQ(Ask(certificates_.Issue(Role::kJob, "j"), coordinator->address()),
            (Error{Code::kOk, ""}));
  EXPECT_THAT(coordinator->calls(), SizeIs(1));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TlsTest, ReadsAnswersOfMegabytes) {
  const auto coordinator = Coordinator();
  coordinator->get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> {
    v1::ProblemProfile profile;
    profile.set_problem(std::string(5 << 20, 'x'));  // a field that is skipped
    return profile;
  };
  EXPECT_EQ(
      Ask(certificates_.Issue(Role::kJob, "j"), coordinator->address()).message,
      "");
}

TEST_F(TlsTest, ChecksTheCoordinatorsName) {
  const CredentialFiles job = certificates_.Issue(Role::kJob, "j");
  certificates_.RenewCoordinator({"localhost", "::1"});
  const auto coordinator = Coordinator();
  const std::string port =
      coordinator->address().substr(coordinator->address().find(':'));
  EXPECT_EQ(Ask(job, "localhost" + port).message, "");
  const Error other = Ask(job, coordinator->address());
  EXPECT_EQ(other.code, Code::kFailedPrecondition);
  EXPECT_THAT(
      other.message,
      AllOf(HasSubstr(coordinator->address()), HasSubstr("IP address mismatch"),
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
  EXPECT_THAT(coordinator->calls(), IsEmpty());
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
              AllOf(HasSubstr(late.cert + ", which expired on 20"),
                    Not(HasSubstr("BEGIN"))));
  EXPECT_THAT(warnings_, SizeIs(1));

  const Certificates others;
  CredentialFiles foreign = others.Issue(Role::kJob, "j");
  foreign.ca = certificates_.ca().ca;
  const Error error = Ask(foreign, coordinator->address());
  EXPECT_EQ(error.code, Code::kUnauthenticated) << error.message;
  EXPECT_THAT(error.message, HasSubstr(foreign.cert));
  EXPECT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(coordinator->calls(), IsEmpty());
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
  const std::string key = test::FileText(job.key);
  const std::string locked = File("locked", WithPassphrase(key));
  const auto wrong = [&](CredentialFiles files, const std::string& path,
                         const char* why) {
    // Nobody listens there, and nobody is asked.
    const Error error = Ask(files, "127.0.0.1:1");
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(path), HasSubstr(why), Not(HasSubstr("BEGIN")),
                      Not(HasSubstr("127.0.0.1:1"))));
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
  wrong(with(&CredentialFiles::cert, text), text, "is no certificate");
  wrong(with(&CredentialFiles::key, text), text, "is not the private key");
  wrong(with(&CredentialFiles::key, other.key), other.key, "mismatch");
  wrong(with(&CredentialFiles::key, locked), locked, "without a passphrase");
  const std::string open = File("open", key, 0644);
  wrong(with(&CredentialFiles::key, open), open, "0600 and 0640 are accepted");
  wrong(with(&CredentialFiles::key, ""), "", "only the certificate is given");
  wrong(with(&CredentialFiles::ca, ""), job.cert, "UCUDNN_CA");
}

TEST_F(TlsTest, SendsNoTokenInPlaintext) {
  CredentialFiles files;
  files.token = File("token", "secret\n");
  const Error error = Ask(files, "coord-1:7460");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("coord-1:7460 in plaintext"),
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
  ScriptedCoordinator plaintext;
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
                          hanging.address(), std::chrono::milliseconds(200));
  EXPECT_LT(steady_clock::now() - start, seconds(20));
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr(hanging.address()), HasSubstr("in time")));
  EXPECT_THAT(warnings_, IsEmpty());  // it may answer another time
}

TEST_F(TlsTest, EndsInTimeWhereAFileCannotBeRead) {
  CredentialFiles files = certificates_.Issue(Role::kJob, "j");
  files.ca = folder_ / "pipe";
  ASSERT_EQ(mkfifo(files.ca.c_str(), 0600), 0);
  const Error error = Ask(files, "127.0.0.1:1", std::chrono::milliseconds(50));
  EXPECT_EQ(error.code, Code::kDeadlineExceeded);
  EXPECT_THAT(error.message, HasSubstr("takes too long"));
  // Lets the thread that was left behind end.
  std::ofstream(files.ca) << "x";
}

TEST_F(TlsTest, SaysNothingOfACoordinatorThatIsAway) {
  const test::ClosedPort closed;
  EXPECT_EQ(Ask(certificates_.Issue(Role::kJob, "j"), closed.address()).code,
            Code::kUnavailable);
  EXPECT_THAT(warnings_, IsEmpty());
}

// A server whose TLS is set up by `setup`, for one connection.
void ServeTls(const Certificates& certificates,
              const std::function<void(SSL_CTX*)>& setup, Listener* listener) {
  listener->Serve([=, files = certificates.guard()](int connection) {
    const SslContextPtr context(SSL_CTX_new(TLS_server_method()));
    UCUDNN_CHECK(SSL_CTX_use_certificate_chain_file(context.get(),
                                                    files.cert.c_str()) == 1);
    UCUDNN_CHECK(SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(),
                                             SSL_FILETYPE_PEM) == 1);
    setup(context.get());
    const SslPtr session(SSL_new(context.get()));
    SSL_set_fd(session.get(), connection);
    if (SSL_accept(session.get()) == 1) SSL_shutdown(session.get());
  });
}

TEST_F(TlsTest, RefusesOldTls) {
  Listener listener;
  ServeTls(
      certificates_,
      [](SSL_CTX* context) {
        SSL_CTX_set_security_level(context, 0);
        SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
        SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION);
      },
      &listener);
  const Error error = Ask(certificates_.ca(), listener.address());
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("the TLS handshake fails"),
                                   HasSubstr("version")));
}

TEST_F(TlsTest, SpeaksTls12ToHttp2Alone) {
  Listener listener;
  ServeTls(
      certificates_,
      [](SSL_CTX* context) {
        SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
      },
      &listener);
  const Error error = Ask(certificates_.ca(), listener.address());
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message, HasSubstr("no HTTP/2 is spoken there over TLS"));
}

TEST(OpenSslTest, IsAskedForByNameWhereItIsMissing) {
  const auto none = LoadOpenSsl("libssl.so.none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("OpenSSL 3 is needed"),
                    HasSubstr("libssl.so.none was not found")));
  const auto other = LoadOpenSsl("libm.so.6");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("TLS_client_method"));
}

TEST(OpenSslTest, IsLeftAloneInAProgramWithAnother) {
  const auto run = test::Run({test::ProgramPath("own_openssl_program")});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("libcrypto.so.3 cannot be used"),
                             HasSubstr("own_openssl_program has a function "
                                       "BIO_new of its own")));
}

}  // namespace
}  // namespace ucudnn
