#ifndef UCUDNN_DEVICE_HOST_COPY_QUEUE_H_
#define UCUDNN_DEVICE_HOST_COPY_QUEUE_H_

// The copy queue of devices whose memory is the host's: a thread that copies.
// It ends with the queue, after what is enqueued.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

class HostCopyQueue final : public CopyQueue {
 public:
  HostCopyQueue();
  ~HostCopyQueue() override;
  HostCopyQueue(const HostCopyQueue&) = delete;
  HostCopyQueue& operator=(const HostCopyQueue&) = delete;

  Status Upload(void* device, const void* host, Bytes size) override {
    return Copy(device, host, size);
  }
  Status Download(void* host, const void* device, Bytes size) override {
    return Copy(host, device, size);
  }
  Status Set(Event& event) override;
  Status WaitFor(Event& event) override;
  Status Synchronize() override;

 private:
  using Step = std::function<void()>;

  Status Copy(void* to, const void* from, Bytes size);
  void Enqueue(Step step);
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Step> steps_;  // the first is being done
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_HOST_COPY_QUEUE_H_
