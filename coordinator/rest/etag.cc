#include "coordinator/rest/etag.h"

#include <fmt/format.h>

namespace ucudnn {
namespace {

// Without blanks at either end.
std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

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

void SetTag(const HttpRequest& request, const std::string& hash,
            HttpResponse* response) {
  const std::string tag = fmt::format("\"{}\"", hash);
  // Weak, as it was while answers could be compressed.
  response->headers.emplace_back("ETag", "W/" + tag);
  response->headers.emplace_back("Cache-Control", "no-cache");
  if (!NamesTag(request.if_none_match, tag)) return;
  response->status = 304;
  response->body.clear();
  response->type.clear();
}

}  // namespace ucudnn
