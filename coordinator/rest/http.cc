#include "coordinator/rest/http.h"

#include <algorithm>
#include <charconv>

namespace ucudnn {

bool MatchPath(std::string_view pattern, std::string_view path,
               std::vector<std::string>* parts) {
  parts->clear();
  const std::size_t open = pattern.find('{');
  if (!path.starts_with(pattern.substr(0, open))) return false;
  if (open == std::string_view::npos) return path.size() == pattern.size();
  path.remove_prefix(open);
  const std::string_view rest = pattern.substr(pattern.find('}', open) + 1);
  for (std::size_t size = path.size(); size > 0; --size) {
    std::vector<std::string> others;
    if (!MatchPath(rest, path.substr(size), &others)) continue;
    parts->emplace_back(path.substr(0, size));
    parts->insert(parts->end(), others.begin(), others.end());
    return true;
  }
  return false;
}

std::string DecodePercent(std::string_view text, bool plus_is_blank) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 3], byte, 16).ptr ==
            &text[i + 3]) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += plus_is_blank && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::vector<std::pair<std::string, std::string>> ParseQuery(
    std::string_view text) {
  std::vector<std::pair<std::string, std::string>> query;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (one.empty()) continue;
    const std::size_t equals = one.find('=');
    query.emplace_back(DecodePercent(one.substr(0, equals), true),
                       equals == std::string_view::npos
                           ? ""
                           : DecodePercent(one.substr(equals + 1), true));
  }
  return query;
}

}  // namespace ucudnn
