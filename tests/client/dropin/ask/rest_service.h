#ifndef UCUDNN_TESTS_CLIENT_DROPIN_ASK_REST_SERVICE_H_
#define UCUDNN_TESTS_CLIENT_DROPIN_ASK_REST_SERVICE_H_

#include <httplib.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ucudnn::test {

// Answers every GET over HTTP with the same, or over HTTPS as `tls`.
class RestService {
 public:
  explicit RestService(std::string body, int status = 200,
                       std::unique_ptr<httplib::Server> tls = nullptr)
      : server_(tls ? std::move(tls) : std::make_unique<httplib::Server>()) {
    server_->Get(".*", [this, body = std::move(body), status](
                           const httplib::Request& request,
                           httplib::Response& response) {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
      response.status = status;
      response.set_content(body, "application/json");
    });
    port_ = server_->bind_to_any_port("127.0.0.1");
    UCUDNN_CHECK(port_ > 0);
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~RestService() {
    server_->stop();
    thread_.join();
  }

  int port() const { return port_; }
  std::string address() const { return fmt::format("http://127.0.0.1:{}", port_); }
  std::vector<httplib::Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<httplib::Request> requests_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CLIENT_DROPIN_ASK_REST_SERVICE_H_
