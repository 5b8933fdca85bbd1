#ifndef UCUDNN_COORDINATOR_WEB_PAGE_FILES_H_
#define UCUDNN_COORDINATOR_WEB_PAGE_FILES_H_

// The page that the coordinator serves at `/`, compiled into the program. The
// build writes page_files.cc from the TypeScript beside this header.

#include <span>
#include <string_view>

namespace ucudnn {

struct PageFile {
  std::string_view name;  // "page.js"; the page itself is "index.html"
  std::string_view type;  // "text/javascript; charset=utf-8"
  std::string_view content;
  std::string_view hash;  // of the content
};

// Empty in a program that was built without the page.
std::span<const PageFile> BuiltPage();

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_WEB_PAGE_FILES_H_
