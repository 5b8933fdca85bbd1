#include "base/service/call.h"

#include <utility>

namespace ucudnn {
namespace {

thread_local const std::function<Status()>* current = nullptr;
thread_local std::string caller;

}  // namespace

const std::string& Call::Caller() { return caller; }

Call::By::By(std::string name) {
  UCUDNN_CHECK(caller.empty());
  caller = std::move(name);
}

Call::By::~By() { caller.clear(); }

Call::Call(std::function<Status()> wanted) : wanted_(std::move(wanted)) {
  UCUDNN_CHECK(current == nullptr);
  current = &wanted_;
}

Call::~Call() { current = nullptr; }

Call::Shared::Shared() : own_(std::exchange(current, nullptr)) {}

Call::Shared::~Shared() { current = own_; }

Status Call::Check() { return current == nullptr ? Status() : (*current)(); }

}  // namespace ucudnn
