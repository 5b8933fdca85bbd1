#include "proto/job_key.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>

#include "base/result.h"

namespace ucudnn {
namespace {

std::string Hex(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

}  // namespace

std::string NewJobKey() {
  std::array<unsigned char, 32> bytes{};
  UCUDNN_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  return Hex(bytes.data(), bytes.size());
}

std::string JobIdOf(std::string_view key) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  UCUDNN_CHECK(EVP_Digest(key.data(), key.size(), hash.data(), nullptr,
                          EVP_sha256(), nullptr) == 1);
  hash[6] = static_cast<unsigned char>((hash[6] & 0x0FU) | 0x80U);
  hash[8] = static_cast<unsigned char>((hash[8] & 0x3FU) | 0x80U);
  std::string id = Hex(hash.data(), 16);
  for (const std::size_t dash : {20, 16, 12, 8}) id.insert(dash, 1, '-');
  return id;
}

}  // namespace ucudnn
