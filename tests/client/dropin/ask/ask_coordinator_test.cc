// Questions to services of REST, and to ports without one. local_mode_test.cc
// has the real coordinator.

#include "client/dropin/ask/ask_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "client/dropin/ask/curl.h"
#include "tests/client/dropin/ask/listener.h"
#include "tests/client/dropin/ask/rest_service.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using test::ClosedPort;
using test::Listener;
using test::RestService;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kNothing[] = R"({"measurements": [], "complete": []})";

// A profile of `points` measurements.
std::string Answer(int points) {
  std::string rows;
  for (int i = 0; i < points; ++i) {
    rows += R"({"batch": 1, "algorithm": "GEMM", "math": "", "precision": )"
            R"("FP32", "workspace_bytes": 0, "time_us": 1})";
    if (i + 1 < points) rows += ", ";
  }
  return R"({"measurements": [)" + rows + R"(], "complete": []})";
}

// The error of one question.
Error ErrorOf(const std::string& address, milliseconds within = seconds(60)) {
  CoordinatorAsker asker({address}, {.within = within});
  const auto known = asker.Ask("a kind", ConvProblem());
  return known ? Error{Code::kOk, ""} : known.error();
}

TEST(AskCoordinatorTest, AsksForAProblemOfAKind) {
  const RestService coordinator(Answer(2));
  CoordinatorAsker asker({coordinator.address()});
  for (int time = 0; time < 3; ++time) {
    const auto known = asker.Ask("NVIDIA H200/132u+%/1GiB", ConvProblem());
    ASSERT_TRUE(known) << known.error().message;
    EXPECT_THAT(known->points, SizeIs(2));
  }
  ASSERT_THAT(coordinator.requests(), SizeIs(3));
  const httplib::Request request = coordinator.requests().front();
  EXPECT_EQ(request.path, "/v1/profiles/NVIDIA H200/132u+%/1GiB/problems/" +
                              ToString(ConvProblem()));
  EXPECT_FALSE(request.has_header("Authorization"));
}

TEST(AskCoordinatorTest, ReadsAnswersOfMegabytes) {
  const RestService coordinator(Answer(60'000));
  CoordinatorAsker asker({coordinator.address()}, {.within = seconds(60)});
  const auto known = asker.Ask("a kind", ConvProblem());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(known->points, SizeIs(60'000));
}

TEST(AskCoordinatorTest, FindsHostsByName) {
  const RestService coordinator(kNothing);
  const Error error =
      ErrorOf(fmt::format("http://localhost:{}", coordinator.port()));
  EXPECT_EQ(error, (Error{Code::kOk, ""}));
}

TEST(AskCoordinatorTest, UsesNoProxy) {
  const ClosedPort proxy;
  const RestService coordinator(kNothing);
  setenv("http_proxy", ("http://" + proxy.address()).c_str(), 1);
  EXPECT_EQ(ErrorOf(coordinator.address()), (Error{Code::kOk, ""}));
  unsetenv("http_proxy");
}

TEST(AskCoordinatorTest, FailsOverToTheNextAndStaysThere) {
  const ClosedPort closed;
  const RestService refusing("{}", 404);  // an older one
  const RestService coordinator(kNothing);
  CoordinatorAsker asker({"http://" + closed.address(), refusing.address(),
                          coordinator.address()},
                         {.within = seconds(60)});
  ASSERT_TRUE(asker.Ask("a kind", ConvProblem()));
  ASSERT_TRUE(asker.Ask("a kind", ConvProblem()));
  EXPECT_THAT(refusing.requests(), SizeIs(1));
  EXPECT_THAT(coordinator.requests(), SizeIs(2));
}

TEST(AskCoordinatorTest, PausesAfterAFailure) {
  const ClosedPort closed;
  auto now = steady_clock::time_point();
  CoordinatorAsker asker(
      {"http://" + closed.address()},
      {.pause = seconds(30), .now = [&] { return now; }});
  const auto first = asker.Ask("a kind", ConvProblem());
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kUnavailable);
  EXPECT_THAT(first.error().message,
              AllOf(HasSubstr("127.0.0.1 port"), HasSubstr("connect to")));
  now += seconds(29);
  EXPECT_THAT(asker.Ask("a kind", ConvProblem()).error().message,
              HasSubstr("a moment ago"));
  now += seconds(1);
  EXPECT_THAT(asker.Ask("a kind", ConvProblem()).error().message,
              HasSubstr("connect to"));
}

TEST(AskCoordinatorTest, DoesNotWaitForOneThatHangs) {
  const Listener hanging;
  const RestService coordinator(kNothing);
  // The one that hangs leaves time for the other.
  CoordinatorAsker asker(
      {"http://" + hanging.address(), coordinator.address()},
      {.within = seconds(2)});
  EXPECT_TRUE(asker.Ask("a kind", ConvProblem()));
  const Error alone = ErrorOf("http://" + hanging.address(), milliseconds(800));
  EXPECT_EQ(alone.code, Code::kUnavailable);
  EXPECT_THAT(alone.message, HasSubstr(hanging.address()));
}

TEST(AskCoordinatorTest, DoesNotWaitForOneThatDripsForEver) {
  Listener dripping;
  dripping.Serve([](int connection) {
    const std::string_view head = "HTTP/1.1 200 OK\r\n\r\n";
    (void)send(connection, head.data(), head.size(), MSG_NOSIGNAL);
    while (send(connection, " ", 1, MSG_NOSIGNAL) == 1) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  const auto start = steady_clock::now();
  const Error error =
      ErrorOf("http://" + dripping.address(), milliseconds(200));
  EXPECT_LT(steady_clock::now() - start, seconds(20));
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("timed out"));
}

TEST(AskCoordinatorTest, TellsWhatIsNoCoordinator) {
  const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: ";
  const auto says = [](const std::string& text, Code code, const char* why) {
    Listener listener;
    listener.Say(text);
    const Error error = ErrorOf("http://" + listener.address());
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(why));
  };
  says("", Code::kFailedPrecondition, "over TLS with UCUDNN_CA");
  // A gRPC service's first frame.
  says(std::string("\0\0\0\4\0\0\0\0\0", 9), Code::kFailedPrecondition,
       "no REST is spoken there");
  says(ok + "3\r\n\r\n{x}", Code::kUnavailable, "not JSON");
  says(ok + "9\r\n\r\n{}", Code::kUnavailable, "");
  says(ok + "17000000\r\n\r\n" + std::string(17'000'000, ' '),
       Code::kUnavailable, "more than 16 MiB");
}

TEST(AskCoordinatorTest, TellsWhyItIsRefused) {
  const std::string detail = R"({"detail": "because\u001b"})";
  for (const auto& [status, code] : {std::pair(401, Code::kUnauthenticated),
                                     std::pair(403, Code::kPermissionDenied),
                                     std::pair(421, Code::kFailedPrecondition),
                                     std::pair(500, Code::kUnavailable)}) {
    const RestService coordinator(detail, status);
    const Error error = ErrorOf(coordinator.address());
    EXPECT_EQ(error.code, code);
    EXPECT_THAT(error.message,
                HasSubstr(fmt::format("refused ({}): because\\x1B", status)));
  }
}

TEST(AskCoordinatorTest, TellsWhatToSetInPlaceOfAGrpcPort) {
  const Error error = ErrorOf("coord-1:9000");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("coord-1:9000"), HasSubstr("http://host:port")));
  EXPECT_THAT(ErrorOf("https://coord-1:9000").message, HasSubstr("UCUDNN_CA"));
}

TEST(AskCoordinatorTest, LeavesSignalsAlone) {
  static volatile std::sig_atomic_t caught = 0;
  struct sigaction mine = {};
  mine.sa_handler = [](int) { caught = 1; };
  struct sigaction before = {};
  ASSERT_EQ(sigaction(SIGPIPE, &mine, &before), 0);
  Listener closing;
  closing.Serve([](int) {});
  EXPECT_NE(ErrorOf("http://" + closing.address()).code, Code::kOk);
  struct sigaction after = {};
  ASSERT_EQ(sigaction(SIGPIPE, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, mine.sa_handler);
  EXPECT_EQ(caught, 0);
}

TEST(CurlTest, IsAskedForByNameWhereItIsMissing) {
  const auto none = LoadCurl({"libcurl.so.none"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("libcurl.so.none was not found"),
                    HasSubstr("libcurl4")));
  const auto other = LoadCurl({"libm.so.6"});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("has no function curl_"));
}

TEST(CurlTest, IsLeftAloneInAProgramWithAnotherOpenSsl) {
  const auto run = test::Run({test::ProgramPath("own_openssl_program")});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("libcurl.so.4 cannot be used"),
                             HasSubstr("own_openssl_program has a function "
                                       "BIO_new of its own")));
}

TEST(CurlTest, IsLeftAloneWhereTheProgramMayBeInitializingAnOldOne) {
  const std::string old = test::LibraryPath("libold_curl.so");
  EXPECT_TRUE(LoadCurl({old}));
  const auto shared = LoadCurl({old});
  ASSERT_FALSE(shared);
  EXPECT_THAT(shared.error().message,
              AllOf(HasSubstr("7.81.0"), HasSubstr("7.84")));
}

}  // namespace
}  // namespace ucudnn
