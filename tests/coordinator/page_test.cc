#include "coordinator/rest/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "coordinator/rest/http_server.h"
#include "coordinator/security/guard.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr PageFile kFiles[] = {
    {"index.html", "text/html; charset=utf-8", "<!doctype html>", "h1"},
    {"page.js", "text/javascript; charset=utf-8", "start()", "h2"},
};

// An HTTP server with nothing but a page.
class Served {
 public:
  explicit Served(const Page& page) {
    AddPage(page, &http_);
    if (!http_.Listen("127.0.0.1:0")) throw std::runtime_error("no port");
  }

  httplib::Result Get(const std::string& path,
                      const httplib::Headers& headers = {}) {
    return httplib::Client("127.0.0.1", http_.port()).Get(path, headers);
  }

 private:
  HttpServer http_{4, Guard::None()};
};

TEST(PageTest, ServesTheBuiltFilesUnderAPolicyWithoutExceptions) {
  Served served({.files = kFiles, .folder = {}});
  const auto page = served.Get("/");
  ASSERT_EQ(page->status, 200);
  EXPECT_EQ(page->body, "<!doctype html>");
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  const std::string policy = page->get_header_value("Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("require-trusted-types-for 'script'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(served.Get("/page.js")->body, "start()");
  EXPECT_EQ(served.Get("/page.css")->status, 404);
}

TEST(PageTest, SendsNothingAgainThatTheBrowserHas) {
  Served served({.files = kFiles, .folder = {}});
  const std::string tag = served.Get("/page.js")->get_header_value("ETag");
  const auto again = served.Get("/page.js", {{"If-None-Match", tag}});
  EXPECT_EQ(again->status, 304);
  EXPECT_EQ(again->body, "");
  EXPECT_EQ(served.Get("/", {{"If-None-Match", tag}})->status, 200);
}

TEST(PageTest, ReadsTheFilesOfAFolderForEveryRequest) {
  const test::TemporaryFolder folder;
  Served served({.files = kFiles, .folder = folder.path()});
  const auto write = [&](const std::string& text) {
    std::ofstream(folder / "index.html") << text;
  };
  write("first");
  EXPECT_EQ(served.Get("/")->body, "first");
  write("second");
  EXPECT_EQ(served.Get("/")->body, "second");
  EXPECT_EQ(served.Get("/")->get_header_value("Cache-Control"), "no-store");
  const auto missing = served.Get("/page.js");
  EXPECT_EQ(missing->status, 404);
  EXPECT_THAT(missing->body, HasSubstr("page.js"));
}

TEST(PageTest, SaysThatTheBuildHasNone) {
  Served served({});
  const auto none = served.Get("/");
  EXPECT_EQ(none->status, 404);
  EXPECT_THAT(none->body, HasSubstr("built without its page"));
  EXPECT_THAT(none->body, HasSubstr("/v1/plans"));
}

}  // namespace
}  // namespace ucudnn
