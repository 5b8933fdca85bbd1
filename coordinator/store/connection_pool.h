#ifndef UCUDNN_COORDINATOR_STORE_CONNECTION_POOL_H_
#define UCUDNN_COORDINATOR_STORE_CONNECTION_POOL_H_

// Connections to a database, opened when first needed and lent to one caller
// each.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/service/call.h"

namespace ucudnn {

// Thread-safe. Must outlive its leases.
template <class Connection>
class ConnectionPool {
 public:
  // Returns the connection on destruction.
  class Lease {
   public:
    Lease(ConnectionPool* pool, std::unique_ptr<Connection> connection)
        : pool_(pool), connection_(std::move(connection)) {}
    Lease(Lease&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          connection_(std::move(other.connection_)) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (pool_ != nullptr) pool_->Return(std::move(connection_));
    }

    Connection* operator->() const { return connection_.get(); }
    // Drops a broken connection; the pool makes another when needed.
    void Discard() { connection_.reset(); }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  // `first`, if any, is the first to be lent.
  explicit ConnectionPool(std::size_t size,
                          std::unique_ptr<Connection> first = nullptr)
      : size_(size) {
    if (first != nullptr) idle_.push_back(std::move(first));
  }

  // Lends an idle connection, or while fewer than `size` are lent, one made by
  // `make`, which returns a Result<std::unique_ptr<Connection>>; otherwise
  // waits. kUnavailable after 30 s; errors of Call::Check while it waits, and
  // of `make`.
  template <class Make>
  Result<Lease> Take(const Make& make) {
    constexpr auto kPatience = std::chrono::seconds(30);
    constexpr auto kLook = std::chrono::milliseconds(50);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::unique_lock lock(mutex_);
    while (!returned_.wait_for(
        lock, kLook, [&] { return !idle_.empty() || lent_ < size_; })) {
      UCUDNN_RETURN_IF_ERROR(Call::Check());
      if (std::chrono::steady_clock::now() < end) continue;
      return Fail(Code::kUnavailable,
                  "all {} connections to the database are busy", size_);
    }
    ++lent_;
    if (!idle_.empty()) {
      auto connection = std::move(idle_.back());
      idle_.pop_back();
      return Lease(this, std::move(connection));
    }
    lock.unlock();
    auto made = make();
    if (!made) {
      Return(nullptr);
      return tl::unexpected<Error>(std::move(made).error());
    }
    return Lease(this, *std::move(made));
  }

  // Closes the idle connections.
  void DiscardIdle() {
    std::vector<std::unique_ptr<Connection>> closing;
    const std::lock_guard lock(mutex_);
    closing.swap(idle_);
  }

 private:
  void Return(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock(mutex_);
      --lent_;
      if (connection != nullptr) idle_.push_back(std::move(connection));
    }
    returned_.notify_one();
  }

  const std::size_t size_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::size_t lent_ = 0;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_CONNECTION_POOL_H_
