#include "coordinator/rest/etag.h"

#include <fmt/format.h>
#include <httplib.h>

#include "coordinator/rest/http_head.h"

namespace ucudnn {

bool NamesTag(std::string_view header, std::string_view tag) {
  while (!header.empty()) {
    const std::size_t comma = header.find(',');
    std::string_view named = Trimmed(header.substr(0, comma));
    if (named == "*") return true;
    if (named.starts_with("W/")) named.remove_prefix(2);
    if (named == tag) return true;
    if (comma == std::string_view::npos) break;
    header.remove_prefix(comma + 1);
  }
  return false;
}

void SetTag(const httplib::Request& request, const std::string& hash,
            httplib::Response* response) {
  const std::string tag = fmt::format("\"{}\"", hash);
  // Weak, because a compressed answer has the same.
  response->set_header("ETag", "W/" + tag);
  response->set_header("Cache-Control", "no-cache");
  if (!NamesTag(request.get_header_value("If-None-Match"), tag)) return;
  response->status = 304;
  response->body.clear();
  response->headers.erase("Content-Type");
}

}  // namespace ucudnn
