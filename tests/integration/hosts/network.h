#ifndef UCUDNN_TESTS_INTEGRATION_HOSTS_NETWORK_H_
#define UCUDNN_TESTS_INTEGRATION_HOSTS_NETWORK_H_

// Hosts made of network namespaces, and the links between them: a thread of
// this process carries each packet from one host's TUN device to the other's,
// late or not at all if the link says so. The kernel's netem would do the same
// where it is built in; this works wherever namespaces do.
//
//   auto network = Network::Make(3);
//   network->SetLink(0, 2, {.delay = 40ms, .loss = 0.05});
//   Process agent(network->On(2, {"ucudnn-agent", ...}), log);

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ucudnn::test {

// One direction of a link.
struct Link {
  std::chrono::milliseconds delay{0};
  double loss = 0;                    // of all packets; 1: it is cut
  std::int64_t bytes_per_second = 0;  // 0: as many as come
};

class Network {
 public:
  // kFailedPrecondition, with the reason: this process may make no namespaces
  // or TUN devices. As another user than root it moves into a user namespace.
  static Result<std::unique_ptr<Network>> Make(std::size_t hosts,
                                               unsigned seed = 1);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // The command that runs `command` on the host.
  std::vector<std::string> On(std::size_t host,
                              const std::vector<std::string>& command) const;
  std::string Name(std::size_t host) const;
  std::string Address(std::size_t host) const;

  // From one host to another, in this direction alone.
  void SetLink(std::size_t from, std::size_t to, const Link& link);
  // All links deliver everything at once again.
  void Heal();
  // Packets that links lost.
  std::int64_t lost() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Host {
    int net = -1;  // its namespaces
    int uts = -1;
    int tun = -1;
  };
  struct Packet {
    std::size_t to = 0;
    std::string bytes;
  };

  explicit Network(unsigned seed) : random_(seed) {}
  Status Add();
  void Carry();
  void Take(std::size_t from, std::string packet);
  void Deliver();
  int NextWaitMs() const;

  std::vector<Host> hosts_;
  int wake_[2] = {-1, -1};  // a pipe; ends Carry when it closes
  mutable std::mutex mutex_;
  std::mt19937 random_;
  std::map<std::pair<std::size_t, std::size_t>, Link> links_;
  // When each link has sent what it was given.
  std::map<std::pair<std::size_t, std::size_t>, Clock::time_point> free_;
  std::multimap<Clock::time_point, Packet> late_;
  std::int64_t lost_ = 0;
  std::thread carrier_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_HOSTS_NETWORK_H_
