#ifndef UCUDNN_AGENT_IDENTITY_H_
#define UCUDNN_AGENT_IDENTITY_H_

// What an agent is called. Agents of one host that work for one coordinator
// are told apart by their ids, and so are their CPU devices: an id is one
// process's as long as that lives.

#include <string>
#include <utility>

#include "base/result.h"

namespace ucudnn {

class Identity {
 public:
  // Takes `id`. If it is taken: kFailedPrecondition, unless it is only a
  // `suggestion`; then `id`-2, `id`-3, ... `coordinators` are those it works
  // for, in whatever form.
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
  int socket_;  // bound to the id's name; the system lets go of it
};

}  // namespace ucudnn

#endif  // UCUDNN_AGENT_IDENTITY_H_
