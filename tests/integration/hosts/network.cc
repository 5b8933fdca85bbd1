#include "tests/integration/hosts/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace ucudnn::test {
namespace {

constexpr char kDevice[] = "link0";
// Packets that would wait for longer are lost, as in a router's queue.
constexpr auto kLongestQueue = std::chrono::milliseconds(500);

Error Refused(const std::string& what) {
  return {Code::kFailedPrecondition, what + ": " + std::strerror(errno)};
}

std::string AddressOf(std::size_t host) {
  return "10.99.0." + std::to_string(host + 1);
}

// Lets programs that this process starts have what they need to enter the
// hosts' namespaces, though their user is not root.
Status KeepCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
  if (syscall(SYS_capget, &header, sets) != 0) {
    return tl::unexpected(Refused("capget"));
  }
  for (__user_cap_data_struct& set : sets) set.inheritable = set.permitted;
  if (syscall(SYS_capset, &header, sets) != 0) {
    return tl::unexpected(Refused("capset"));
  }
  for (const int capability : {CAP_SYS_ADMIN, CAP_SYS_PTRACE}) {
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0) {
      return tl::unexpected(Refused("no ambient capabilities"));
    }
  }
  return {};
}

// Moves this process into a user namespace in which it keeps its user, and has
// the capabilities for namespaces that its children inherit.
Status EnterUserNamespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER) != 0) {
    return tl::unexpected(Refused("no user namespace"));
  }
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user << ' ' << user << " 1";
  std::ofstream("/proc/self/gid_map") << group << ' ' << group << " 1";
  return KeepCapabilities();
}

sockaddr Ipv4(const std::string& address) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &ipv4.sin_addr);
  sockaddr generic{};
  std::memcpy(&generic, &ipv4, sizeof generic);
  return generic;
}

// Brings a device of this thread's namespace up, with an address if one is
// given.
bool BringUp(const char* device, const std::optional<std::string>& address) {
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  bool up = true;
  if (address) {
    request.ifr_addr = Ipv4(*address);
    up = ioctl(control, SIOCSIFADDR, &request) == 0;
    request.ifr_netmask = Ipv4("255.255.255.0");
    up = up && ioctl(control, SIOCSIFNETMASK, &request) == 0;
  }
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  up = up && ioctl(control, SIOCSIFFLAGS, &request) == 0;
  close(control);
  return up;
}

// A TUN device in this thread's namespace.
Result<int> OpenTun(const std::string& address) {
  const int tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (tun < 0) return tl::unexpected(Refused("/dev/net/tun"));
  ifreq request{};
  std::strncpy(request.ifr_name, kDevice, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(tun, TUNSETIFF, &request) == 0 && BringUp("lo", {}) &&
      BringUp(kDevice, address)) {
    return tun;
  }
  const Error refused = Refused("no TUN device");
  close(tun);
  return tl::unexpected(refused);
}

// The host that an IPv4 packet is for.
std::optional<std::size_t> Destination(const std::string& packet,
                                       std::size_t hosts) {
  constexpr std::size_t kHeader = 20;
  if (packet.size() < kHeader || (packet[0] >> 4) != 4) return std::nullopt;
  const std::size_t last = static_cast<unsigned char>(packet[19]);
  if (last < 1 || last > hosts) return std::nullopt;
  return last - 1;
}

}  // namespace

Result<std::unique_ptr<Network>> Network::Make(std::size_t hosts,
                                               unsigned seed) {
  if (geteuid() != 0) UCUDNN_RETURN_IF_ERROR(EnterUserNamespace());
  auto network = std::unique_ptr<Network>(new Network(seed));
  for (std::size_t host = 0; host < hosts; ++host) {
    UCUDNN_RETURN_IF_ERROR(network->Add());
  }
  UCUDNN_CHECK(pipe2(network->wake_, O_CLOEXEC | O_NONBLOCK) == 0);
  network->carrier_ = std::thread([&network = *network] { network.Carry(); });
  return network;
}

Network::~Network() {
  if (carrier_.joinable()) {
    close(wake_[1]);
    carrier_.join();
    close(wake_[0]);
  }
  for (const Host& host : hosts_) {
    for (const int fd : {host.net, host.uts, host.tun}) {
      if (fd >= 0) close(fd);
    }
  }
}

Status Network::Add() {
  Host& host = hosts_.emplace_back();
  const std::size_t number = hosts_.size() - 1;
  Status made;
  // A thread's namespaces live on in the descriptors.
  std::thread([&] {
    const std::string name = Name(number);
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 ||
        sethostname(name.c_str(), name.size()) != 0) {
      made = tl::unexpected(Refused("no network namespace"));
      return;
    }
    host.net = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    host.uts = open("/proc/thread-self/ns/uts", O_RDONLY | O_CLOEXEC);
    const auto tun = OpenTun(AddressOf(number));
    if (tun) {
      host.tun = *tun;
    } else {
      made = tl::unexpected(tun.error());
    }
  }).join();
  return made;
}

std::vector<std::string> Network::On(
    std::size_t host, const std::vector<std::string>& command) const {
  const auto path = [](int fd) {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
  };
  std::vector<std::string> words = {"nsenter",
                                    "--net=" + path(hosts_[host].net),
                                    "--uts=" + path(hosts_[host].uts), "--"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string Network::Name(std::size_t host) const {
  return "host" + std::to_string(host);
}

std::string Network::Address(std::size_t host) const { return AddressOf(host); }

void Network::SetLink(std::size_t from, std::size_t to, const Link& link) {
  const std::lock_guard lock(mutex_);
  links_[{from, to}] = link;
}

void Network::Heal() {
  const std::lock_guard lock(mutex_);
  links_.clear();
}

std::int64_t Network::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void Network::Carry() {
  std::vector<pollfd> waited;
  for (const Host& host : hosts_) waited.push_back({host.tun, POLLIN, 0});
  waited.push_back({wake_[0], POLLIN, 0});
  while ((waited.back().revents & POLLHUP) == 0) {
    poll(waited.data(), waited.size(), NextWaitMs());
    for (std::size_t from = 0; from < hosts_.size(); ++from) {
      char bytes[1 << 16];
      ssize_t size = 0;
      while ((size = read(hosts_[from].tun, bytes, sizeof bytes)) > 0) {
        Take(from, std::string(bytes, static_cast<std::size_t>(size)));
      }
    }
    Deliver();
  }
}

void Network::Take(std::size_t from, std::string packet) {
  const auto to = Destination(packet, hosts_.size());
  if (!to || *to == from) return;
  const std::lock_guard lock(mutex_);
  const Link& link = links_[{from, *to}];
  const auto now = Clock::now();
  Clock::time_point& free = free_[{from, *to}];
  if (std::uniform_real_distribution(0.0, 1.0)(random_) < link.loss ||
      free > now + kLongestQueue) {
    ++lost_;
    return;
  }
  free = std::max(free, now);
  if (link.bytes_per_second > 0) {
    free += std::chrono::microseconds(std::ssize(packet) * 1'000'000 /
                                      link.bytes_per_second);
  }
  late_.emplace(free + link.delay, Packet{*to, std::move(packet)});
}

void Network::Deliver() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  while (!late_.empty() && late_.begin()->first <= now) {
    const Packet& packet = late_.begin()->second;
    // A full queue loses it, as any router's does.
    if (write(hosts_[packet.to].tun, packet.bytes.data(), packet.bytes.size()) <
        0) {
      ++lost_;
    }
    late_.erase(late_.begin());
  }
}

int Network::NextWaitMs() const {
  const std::lock_guard lock(mutex_);
  if (late_.empty()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
      late_.begin()->first - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(wait.count(), 0));
}

}  // namespace ucudnn::test
