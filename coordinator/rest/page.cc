#include "coordinator/rest/page.h"

#include <fmt/format.h>
#include <httplib.h>

#include "base/files/file.h"
#include "base/units.h"
#include "coordinator/rest/etag.h"
#include "coordinator/rest/http_listener.h"

namespace ucudnn {
namespace {

constexpr Bytes kMaxFile = 16_MiB;

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types default";

constexpr const char* kNoPage =
    "This ucudnn-coord was built without its page, because npm was absent or\n"
    "UCUDNN_WITH_PAGE was off. The same answers are at /v1/status, "
    "/v1/devices,\n"
    "/v1/plans and /v1/jobs, and from the command ucudnn.\n";

void SetHeaders(httplib::Response* response) {
  response->set_header("Content-Security-Policy", kPolicy);
  response->set_header("X-Content-Type-Options", "nosniff");
  response->set_header("Referrer-Policy", "no-referrer");
  response->set_header("Cross-Origin-Opener-Policy", "same-origin");
  response->set_header("Cross-Origin-Resource-Policy", "same-origin");
}

void ServeBuilt(const PageFile& file, const httplib::Request& request,
                httplib::Response* response) {
  SetHeaders(response);
  response->set_content(file.content.data(), file.content.size(),
                        std::string(file.type));
  SetTag(request, std::string(file.hash), response);
}

void ServeFromFolder(const PageFile& file, const std::string& folder,
                     httplib::Response* response) {
  SetHeaders(response);
  response->set_header("Cache-Control", "no-store");
  const Result<std::string> content =
      ReadFile(fmt::format("{}/{}", folder, file.name), kMaxFile);
  if (!content) {
    response->status = 404;
    response->set_content(fmt::format("--ui-dir has no {}\n", file.name),
                          "text/plain; charset=utf-8");
    return;
  }
  response->set_content(*content, std::string(file.type));
}

// What a folder may hold; the build has the same list.
constexpr PageFile kNames[] = {
    {"index.html", "text/html; charset=utf-8", "", ""},
    {"page.js", "text/javascript; charset=utf-8", "", ""},
    {"page.css", "text/css; charset=utf-8", "", ""},
    {"icon.svg", "image/svg+xml; charset=utf-8", "", ""},
    {"licences.txt", "text/plain; charset=utf-8", "", ""},
};

}  // namespace

void AddPage(const Page& page, HttpListener* http) {
  using Http = httplib::Request;
  if (page.files.empty() && page.folder.empty()) {
    http->Route("GET", "/", [](const Http&, httplib::Response* response) {
      SetHeaders(response);
      response->status = 404;
      response->set_content(kNoPage, "text/plain; charset=utf-8");
    });
    return;
  }
  const std::span<const PageFile> files =
      page.folder.empty() ? page.files : std::span<const PageFile>(kNames);
  for (const PageFile& file : files) {
    const std::string path =
        file.name == "index.html" ? "/" : fmt::format("/{}", file.name);
    http->Route("GET", path,
                [file, folder = page.folder](const Http& request,
                                             httplib::Response* response) {
                  if (folder.empty()) {
                    ServeBuilt(file, request, response);
                  } else {
                    ServeFromFolder(file, folder, response);
                  }
                });
  }
}

}  // namespace ucudnn
