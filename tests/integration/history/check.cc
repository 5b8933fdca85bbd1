#include "tests/integration/history/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

namespace ucudnn::test {
namespace {

constexpr std::size_t kShownViolations = 20;

bool IsCount(std::string_view key) { return key.starts_with(kCount); }

// The larger count; the first value of any other key.
std::string Later(const std::string& key, const std::string& before,
                  const std::string& now) {
  if (!IsCount(key)) return before;
  return std::stoll(now) > std::stoll(before) ? now : before;
}

class Checker {
 public:
  Verdict Check(const std::vector<Event>& history) {
    std::vector<const Event*> ended;
    for (const Event& event : history) {
      if (event.what == Event::What::kSent) {
        AddSent(event);
      } else {
        ended.push_back(&event);
      }
    }
    std::vector<const Event*> begun = ended;
    std::ranges::sort(ended, {}, &Event::to_us);
    std::ranges::sort(begun, {}, &Event::from_us);
    auto next = ended.begin();
    for (const Event* event : begun) {
      while (next != ended.end() && (*next)->to_us < event->from_us) {
        Learn(**next++);
      }
      Judge(*event);
    }
    for (const auto& [key, value] : first_) {
      ++verdict_.keys[key.substr(0, key.find('/'))];
    }
    return std::move(verdict_);
  }

 private:
  template <class... Args>
  void Violate(const Event& event, fmt::format_string<Args...> format,
               Args&&... args) {
    ++verdict_.violated;
    if (verdict_.violations.size() == kShownViolations) return;
    verdict_.violations.push_back(
        fmt::format("at {} us: ", event.to_us) +
        fmt::format(format, std::forward<Args>(args)...));
  }

  void AddSent(const Event& event) {
    for (const auto& [key, value] : event.facts) {
      sent_[key].emplace_back(event.from_us, value);
    }
  }

  // The facts of an event that has returned.
  void Learn(const Event& event) {
    for (const auto& [key, value] : event.facts) {
      const auto [known, is_new] = known_.try_emplace(key, value);
      if (!is_new) known->second = Later(key, known->second, value);
    }
  }

  void Judge(const Event& event) {
    std::set<std::string_view> seen;
    for (const auto& [key, value] : event.facts) {
      if (!seen.insert(key).second) {
        Violate(event, "{} is there twice", key);
      }
      JudgeValue(event, key, value);
      JudgeSent(event, key, value);
    }
    if (event.what == Event::What::kAcknowledged) {
      verdict_.acknowledged += event.facts.size();
      return;
    }
    verdict_.read += event.facts.size();
    for (auto known = known_.lower_bound(event.prefix);
         known != known_.end() && known->first.starts_with(event.prefix);
         ++known) {
      if (!seen.contains(known->first)) {
        Violate(event, "{} is lost; it was {}", known->first, known->second);
      }
    }
  }

  void JudgeValue(const Event& event, const std::string& key,
                  const std::string& value) {
    const auto [first, is_new] = first_.try_emplace(key, value);
    if (!IsCount(key)) {
      if (first->second != value) {
        Violate(event, "{} was {} and is {}", key, first->second, value);
      }
      return;
    }
    const auto known = known_.find(key);
    if (known != known_.end() &&
        std::stoll(value) < std::stoll(known->second)) {
      Violate(event, "{} went back from {} to {}", key, known->second, value);
    }
  }

  void JudgeSent(const Event& event, const std::string& key,
                 const std::string& value) {
    const auto sent = sent_.find(key);
    if (sent == sent_.end()) return;
    const bool possible = std::ranges::any_of(sent->second, [&](const auto& s) {
      if (s.first > event.to_us) return false;
      return IsCount(key) ? std::stoll(s.second) >= std::stoll(value)
                          : s.second == value;
    });
    if (!possible) Violate(event, "{} is {}, which nobody sent", key, value);
  }

  Verdict verdict_;
  // By key: when each value was sent.
  std::unordered_map<std::string,
                     std::vector<std::pair<std::int64_t, std::string>>>
      sent_;
  // Told or read by calls that returned before the judged one began.
  std::map<std::string, std::string> known_;
  // Told or read first, also by calls at the same time.
  std::unordered_map<std::string, std::string> first_;
};

}  // namespace

Verdict Check(const std::vector<Event>& history) {
  return Checker().Check(history);
}

}  // namespace ucudnn::test
