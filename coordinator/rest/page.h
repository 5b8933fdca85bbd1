#ifndef UCUDNN_COORDINATOR_REST_PAGE_H_
#define UCUDNN_COORDINATOR_REST_PAGE_H_

// Serves the page at `/` and its files beside it.

#include <span>
#include <string>

#include "coordinator/web/page_files.h"

namespace ucudnn {

class HttpServer;

struct Page {
  // What to serve. If empty, `/` says that this build has no page.
  std::span<const PageFile> files;
  // Where not empty, the files are read from this folder instead, for every
  // request: for work on the page.
  std::string folder;
};

// The policy admits nothing but the page's own files and the coordinator's
// answers, and no markup made from strings.
void AddPage(const Page& page, HttpServer* http);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_PAGE_H_
