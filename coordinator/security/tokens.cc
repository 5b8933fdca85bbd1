#include "coordinator/security/tokens.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include "base/text.h"

namespace ucudnn {
namespace {

bool StartsWithWord(std::string_view text, std::string_view word) {
  return text.size() > word.size() &&
         std::ranges::equal(text.substr(0, word.size()), word,
                            [](unsigned char a, unsigned char b) {
                              return std::tolower(a) == std::tolower(b);
                            });
}

bool IsHash(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](unsigned char c) {
           return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f');
         });
}

std::string DecodeBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > 1024) return "";
  std::string decoded(text.size() / 4 * 3, '\0');
  const int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                      reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(text.size()));
  if (size < 0) return "";
  const auto padding = std::ranges::count(text, '=');
  decoded.resize(static_cast<std::size_t>(size - padding));
  return decoded;
}

}  // namespace

std::string HashOf(std::string_view token) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  UCUDNN_CHECK(EVP_Digest(token.data(), token.size(), hash.data(), &size,
                          EVP_sha256(), nullptr) == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", hash[i]);
  return text;
}

Result<Tokens> ParseTokens(std::string_view text) {
  Tokens tokens;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string role;
    std::string name;
    std::string hash;
    std::string more;
    if (!(words >> role) || role.starts_with('#')) continue;
    const std::string where = fmt::format("line {}", number);
    words >> name >> hash;
    if (!IsHash(hash) || words >> more) {
      return Fail(Code::kInvalidArgument,
                  "{}: 'ROLE NAME SHA256' is accepted, such as "
                  "certificates.sh token adds",
                  where);
    }
    auto parsed = ParseRole(role);
    if (!parsed) return Within(where, std::move(parsed).error());
    if (Status named = CheckPrincipalName("the name", name); !named) {
      return Within(where, std::move(named).error());
    }
    tokens[hash] = {.cluster = {}, .role = *parsed, .name = name};
  }
  return tokens;
}

std::string TokenIn(std::string_view authorization) {
  constexpr std::string_view kBearer = "Bearer ";
  constexpr std::string_view kBasic = "Basic ";
  if (StartsWithWord(authorization, kBearer)) {
    return std::string(authorization.substr(kBearer.size()));
  }
  if (!StartsWithWord(authorization, kBasic)) return "";
  const std::string pair = DecodeBase64(authorization.substr(kBasic.size()));
  const std::size_t colon = pair.find(':');
  return colon == std::string::npos ? "" : pair.substr(colon + 1);
}

}  // namespace ucudnn
