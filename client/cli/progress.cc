#include "client/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "client/cli/command.h"

namespace ucudnn::ctl {

Progress::Progress(std::string what, bool terminal)
    : what_(std::move(what)),
      terminal_(terminal),
      start_(std::chrono::steady_clock::now()) {}

std::string Progress::Left(std::int64_t done, std::int64_t total) const {
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - start_;
  if (done <= first_done_ || passed.count() < 1) return "";
  const double left = passed.count() * static_cast<double>(total - done) /
                      static_cast<double>(done - first_done_);
  if (left < 120) return fmt::format(", about {:.0f} s left", left);
  return fmt::format(", about {:.0f} min left", left / 60);
}

void Progress::Show(std::int64_t done, std::int64_t total,
                    const std::string& note) {
  if (first_done_ < 0) first_done_ = done;
  if (total <= 0) return;
  const std::string extra = note.empty() ? "" : ", " + note;
  if (terminal_) {
    constexpr std::int64_t kWidth = 30;
    const auto filled = static_cast<std::size_t>(
        std::clamp(done * kWidth / total, std::int64_t{0}, kWidth));
    std::fprintf(stderr, "\r\033[K[%s%s] %lld/%lld %s%s%s",
                 std::string(filled, '#').c_str(),
                 std::string(std::size_t(kWidth) - filled, '.').c_str(),
                 static_cast<long long>(done), static_cast<long long>(total),
                 what_.c_str(), extra.c_str(), Left(done, total).c_str());
    std::fflush(stderr);
    open_ = true;
    return;
  }
  const std::int64_t tenth = done * 10 / total;
  if (tenth == last_tenth_) return;
  last_tenth_ = tenth;
  std::fprintf(stderr, "%lld of %lld %s%s%s\n", static_cast<long long>(done),
               static_cast<long long>(total), what_.c_str(), extra.c_str(),
               Left(done, total).c_str());
}

void Progress::Say(const std::string& line) {
  End();
  std::fprintf(stderr, "%s\n", OneLine(line).c_str());
}

void Progress::End() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace ucudnn::ctl
