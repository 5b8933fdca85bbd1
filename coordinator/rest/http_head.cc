#include "coordinator/rest/http_head.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <set>

#include "base/text.h"

namespace ucudnn {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

char LowerCase(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = LowerCase(c);
  return lower;
}

bool IsToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return IsDigit(c) || (LowerCase(c) >= 'a' && LowerCase(c) <= 'z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool IsText(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\t';
  });
}

tl::unexpected<Error> Refuse(std::string_view what, std::string_view found,
                             std::string_view accepted) {
  return Fail(Code::kInvalidArgument, "{} '{}'; {} is accepted", what,
              Excerpt(found, 80), accepted);
}

// "GET /livez HTTP/1.1"
Status ReadLine(std::string_view line, HttpHead* head, bool* has_host) {
  const std::size_t target = line.find(' ');
  const std::size_t version = line.rfind(' ');
  constexpr std::string_view kLine = "METHOD /PATH HTTP/1.1";
  if (target == std::string_view::npos || version <= target + 1) {
    return Refuse("the request's line is", line, kLine);
  }
  head->method = line.substr(0, target);
  const std::string_view path = line.substr(target + 1, version - target - 1);
  const std::string_view protocol = line.substr(version + 1);
  // Also the methods that httplib refuses, with the path's in the answer.
  if (!IsToken(head->method) || !path.starts_with('/') ||
      !std::ranges::all_of(path, [](char c) { return c > 0x20 && c < 0x7f; }) ||
      (protocol != "HTTP/1.1" && protocol != "HTTP/1.0")) {
    return Refuse("the request's line is", line, kLine);
  }
  *has_host = protocol == "HTTP/1.0";
  return {};
}

Result<std::size_t> ReadLength(std::string_view value) {
  // One digit less than the largest has, so that it cannot overflow.
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::digits10;
  if (value.empty() || value.size() > kMost ||
      !std::ranges::all_of(value, IsDigit)) {
    return Refuse("Content-Length is", value, "a number of bytes");
  }
  std::size_t length = 0;
  for (const char c : value) {
    length = 10 * length + static_cast<std::size_t>(c - '0');
  }
  return length;
}

}  // namespace

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

Result<HttpHead> ParseHttpHead(std::string_view text) {
  HttpHead head;
  bool may_lack_host = false;
  // Fields of which a second one could be read instead of the first.
  std::set<std::string> seen;
  bool first = true;
  while (true) {
    const std::size_t end = text.find("\r\n");
    if (end == std::string_view::npos) {
      return Refuse("the head ends with", text, "an empty line");
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    if (first) {
      UCUDNN_RETURN_IF_ERROR(ReadLine(line, &head, &may_lack_host));
      first = false;
      continue;
    }
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !IsToken(line.substr(0, colon)) ||
        !IsText(line)) {
      return Refuse("a line of the head is", line, "NAME: VALUE");
    }
    const std::string name = LowerCase(line.substr(0, colon));
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (name == "transfer-encoding") {
      return Refuse("Transfer-Encoding is", value, "Content-Length instead");
    }
    if (name != "content-length" && name != "host" && name != "origin" &&
        name != "content-type" && name != "authorization") {
      continue;
    }
    if (!seen.insert(name).second) {
      return Refuse(name + " is given twice, now as", value, "one");
    }
    if (name == "content-length") {
      UCUDNN_ASSIGN_OR_RETURN(head.content_length, ReadLength(value));
    } else if (name == "host") {
      head.host = value;
    } else if (name == "origin") {
      head.origin = value;
    } else if (name == "content-type") {
      head.content_type = LowerCase(Trimmed(value.substr(0, value.find(';'))));
    }
  }
  if (!text.empty()) return Refuse("after the head is", text, "nothing");
  if (head.host.empty() && !may_lack_host) {
    return Fail(Code::kInvalidArgument,
                "Host is absent or empty; HTTP/1.1 requires it");
  }
  if (head.content_length > 0 && head.method != "PUT" &&
      head.method != "POST" && head.method != "PATCH") {
    return Fail(Code::kInvalidArgument,
                "{} has a body of {} bytes; none is accepted",
                Excerpt(head.method), head.content_length);
  }
  return head;
}

bool IsHostOfOurs(std::string_view host, std::string_view own) {
  if (host.starts_with('[')) {  // IPv6
    const std::size_t end = host.find(']');
    return end != std::string_view::npos &&
           (end + 1 == host.size() || host[end + 1] == ':');
  }
  std::string name = LowerCase(host.substr(0, host.find(':')));
  if (name.ends_with('.')) name.pop_back();
  in_addr address{};
  if (name.find('.') == std::string::npos || name == LowerCase(own) ||
      inet_pton(AF_INET, name.c_str(), &address) == 1) {
    return true;
  }
  constexpr auto kUnregistrable = std::to_array<std::string_view>(
      {".localhost", ".local", ".internal", ".home.arpa", ".test", ".svc"});
  return std::ranges::any_of(kUnregistrable, [&](std::string_view suffix) {
    return name.ends_with(suffix);
  });
}

bool IsOriginOf(std::string_view origin, std::string_view host) {
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos &&
         LowerCase(origin.substr(scheme + 3)) == LowerCase(host);
}

}  // namespace ucudnn
