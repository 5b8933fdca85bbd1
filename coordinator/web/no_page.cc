// Instead of the page, where npm is absent or UCUDNN_WITH_PAGE is off.

#include "coordinator/web/page_files.h"

namespace ucudnn {

std::span<const PageFile> BuiltPage() { return {}; }

}  // namespace ucudnn
