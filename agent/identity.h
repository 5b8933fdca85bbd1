#ifndef UCUDNN_AGENT_IDENTITY_H_
#define UCUDNN_AGENT_IDENTITY_H_

// An agent's unique name. Ids distinguish the agents of one host that work for
// one coordinator, and their CPU devices: a process owns its id as long as it
// lives.

#include <string>
#include <utility>

#include "base/result.h"

namespace ucudnn {

class Identity {
 public:
  // Claims `id`. If it is taken: kFailedPrecondition or, if it is only a
  // `suggestion`, the first free of `id`-2, `id`-3, ... `coordinators` are
  // those it works for, in any form.
  static Result<Identity> Take(const std::string& id, bool suggestion,
                               const std::string& coordinators);

  Identity(Identity&& other) noexcept
      : id_(std::move(other.id_)), socket_(std::exchange(other.socket_, -1)) {}
  Identity& operator=(Identity&&) = delete;
  ~Identity();

  const std::string& id() const { return id_; }

 private:
  Identity(std::string id, int socket) : id_(std::move(id)), socket_(socket) {}

  std::string id_;
  int socket_;  // bound to the id's name; the kernel releases it
};

}  // namespace ucudnn

#endif  // UCUDNN_AGENT_IDENTITY_H_
