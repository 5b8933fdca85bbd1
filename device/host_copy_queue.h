#ifndef UCUDNN_DEVICE_HOST_COPY_QUEUE_H_
#define UCUDNN_DEVICE_HOST_COPY_QUEUE_H_

// The copy queue of devices whose memory is the host's: a thread that copies.
// It ends with the queue, after the copies that are enqueued.

#include <condition_variable>
#include <cstddef>
#include <deque>
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
    return Enqueue(device, host, size);
  }
  Status Download(void* host, const void* device, Bytes size) override {
    return Enqueue(host, device, size);
  }
  Status Synchronize() override;

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t size;
  };

  Status Enqueue(void* to, const void* from, Bytes size);
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> copies_;  // the first is being copied
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_HOST_COPY_QUEUE_H_
