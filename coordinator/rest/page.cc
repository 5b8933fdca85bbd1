#include "coordinator/rest/page.h"

#include <fmt/format.h>

#include "base/files/file.h"
#include "base/units.h"
#include "coordinator/rest/etag.h"
#include "coordinator/rest/http_server.h"

namespace ucudnn {
namespace {

constexpr Bytes kMaxFile = 16_MiB;

constexpr std::string_view kPlainText = "text/plain; charset=utf-8";

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

HttpResponse Served(int status, std::string_view type, std::string body) {
  return {.status = status,
          .type = std::string(type),
          .headers = {{"Content-Security-Policy", kPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}},
          .body = std::move(body),
          .next = {}};
}

HttpResponse ServeBuilt(const PageFile& file, const HttpRequest& request) {
  HttpResponse response = Served(200, file.type, std::string(file.content));
  SetTag(request, std::string(file.hash), &response);
  return response;
}

HttpResponse ServeFromFolder(const PageFile& file, const std::string& folder) {
  Result<std::string> content =
      ReadFile(fmt::format("{}/{}", folder, file.name), kMaxFile);
  HttpResponse response =
      content ? Served(200, file.type, *std::move(content))
              : Served(404, kPlainText,
                       fmt::format("--ui-dir has no {}\n", file.name));
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
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

void AddPage(const Page& page, HttpServer* http) {
  if (page.files.empty() && page.folder.empty()) {
    http->Get("/", [](const HttpRequest&) {
      return Served(404, kPlainText, kNoPage);
    });
    return;
  }
  const std::span<const PageFile> files =
      page.folder.empty() ? page.files : std::span<const PageFile>(kNames);
  for (const PageFile& file : files) {
    const std::string path =
        file.name == "index.html" ? "/" : fmt::format("/{}", file.name);
    http->Get(path, [file, folder = page.folder](const HttpRequest& request) {
      return folder.empty() ? ServeBuilt(file, request)
                            : ServeFromFolder(file, folder);
    });
  }
}

}  // namespace ucudnn
