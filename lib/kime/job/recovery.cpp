#include "kime/job/recovery.h"

#include <algorithm>
#include <utility>

namespace kime {

namespace {

std::size_t count_distinct(std::vector<std::size_t> devices) {
  std::ranges::sort(devices);
  return static_cast<std::size_t>(std::unique(devices.begin(), devices.end()) - devices.begin());
}

}  // namespace

void Recovery::retire(std::size_t device) {
  if (!std::exchange(devices_[device].retired, true)) {
    --live_;
  }
}

bool Recovery::may_take(const Work& work, std::span<const std::vector<std::size_t>> lanes, std::size_t lane) const {
  const auto good = [&](const std::vector<std::size_t>& devices) {
    return !devices.empty() && std::ranges::none_of(devices, [&](std::size_t device) {
      return retired(device) || std::ranges::find(work.failed_on, device) != work.failed_on.end();
    });
  };
  return good(lanes[lane]) || std::ranges::none_of(lanes, good);
}

Recovery::Verdict Recovery::failed(Work work, std::size_t device, bool lost) {
  work.failed_on.push_back(device);
  if (lost) {
    retire(device);
    return suspects(std::move(work));
  }
  auto& in_a_row = devices_[device].in_a_row;
  if (in_a_row.size() == kStreak) {
    in_a_row.pop_front();
  }
  in_a_row.push_back({work.id, false});
  // It goes back to a device only where may_take() knows no other.
  if (work.failed_on.size() < 2) {
    Verdict verdict;
    verdict.again.push_back(std::move(work));
    return verdict;
  }
  return halve(std::move(work));
}

Recovery::Verdict Recovery::halve(Work work) {
  Verdict verdict;
  if (work.numbers.size() == 1) {
    verdict.given_up = std::move(work.numbers);
    return verdict;
  }
  const auto middle = work.numbers.begin() + static_cast<std::ptrdiff_t>(work.numbers.size() / 2);
  verdict.again.push_back({next_id(), {work.numbers.begin(), middle}, 0, 0, {}, false});
  verdict.again.push_back({next_id(), {middle, work.numbers.end()}, 0, 0, {}, false});
  return verdict;
}

Recovery::Verdict Recovery::suspects(Work work) {
  Verdict verdict;
  if (live_ > 0 && work.numbers.size() == 1 && count_distinct(work.failed_on) >= 2) {
    verdict.given_up = std::move(work.numbers);
    return verdict;
  }
  for (const auto number : work.numbers) {
    verdict.again.push_back({next_id(), {number}, 0, 0, work.failed_on, true});
  }
  return verdict;
}

std::vector<std::size_t> Recovery::scored(const Work& work, std::span<const std::size_t> devices) {
  for (const std::size_t device : devices) {
    devices_[device].in_a_row.clear();
  }
  std::vector<std::size_t> broken;
  if (work.failed_on.empty()) {
    return broken;
  }
  for (std::size_t other = 0; other < devices_.size(); ++other) {
    auto& record = devices_[other];
    for (auto& failure : record.in_a_row) {
      failure.scored_elsewhere = failure.scored_elsewhere || failure.work == work.id;
    }
    const auto both = [](const Failure& one, const Failure& next) { return one.scored_elsewhere && next.scored_elsewhere; };
    const bool two = std::ranges::adjacent_find(record.in_a_row, both) != record.in_a_row.end();
    if (two && !record.retired && live_ > 1) {
      retire(other);
      broken.push_back(other);
    }
  }
  return broken;
}

}  // namespace kime
