// A libcurl as far as it is loaded, of before 7.84: it tells no features.

#include <cstdlib>

extern "C" {

struct Version {
  int age;
  const char* version;
  unsigned number;
  const char* host;
  int features;
};

int curl_global_init(long /*flags*/) { return 0; }
Version* curl_version_info(int /*age*/) {
  static Version version = {9, "7.81.0", 0x075100, "", 0};
  return &version;
}
void curl_easy_init() { std::abort(); }
void curl_easy_setopt() { std::abort(); }
void curl_easy_perform() { std::abort(); }
void curl_easy_getinfo() { std::abort(); }
void curl_easy_strerror() { std::abort(); }
void curl_easy_cleanup() { std::abort(); }
}
