#include "kime/job/job_progress.h"

#include <algorithm>

namespace kime {

void JobProgress::begin(const Fleet& fleet, std::uint64_t before) {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  begin_ = std::chrono::steady_clock::now();
  now_ = {};
  now_.read = before;
  names_.clear();
  std::ranges::transform(fleet.devices(), std::back_inserter(names_), &FleetDevice::name);
  at_work_.assign(names_.size(), 0);
}

void JobProgress::read(std::uint64_t records, std::optional<double> part, bool all) {
  const std::lock_guard lock(mutex_);
  now_.read = records;
  now_.part = part;
  now_.all_read = all;
}

void JobProgress::wrote(std::uint64_t scored, std::uint64_t failed, std::uint64_t tokens) {
  const std::lock_guard lock(mutex_);
  now_.scored = scored;
  now_.failed = failed;
  now_.tokens = tokens;
}

std::optional<Progress> JobProgress::look() const {
  const std::lock_guard lock(mutex_);
  if (!begun_) {
    return std::nullopt;
  }
  Progress now = now_;
  now.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  now.read = std::max(now.read, now.done());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (at_work_[i] > 0) {
      now.at_work.push_back(names_[i]);
    }
  }
  return now;
}

JobProgress::Working::Working(JobProgress* progress, std::span<const std::size_t> devices) : progress_(progress) {
  if (progress_ != nullptr) {
    devices_.assign(devices.begin(), devices.end());
    const std::lock_guard lock(progress_->mutex_);
    for (const std::size_t device : devices_) {
      ++progress_->at_work_[device];
    }
  }
}

JobProgress::Working::~Working() {
  if (progress_ != nullptr) {
    const std::lock_guard lock(progress_->mutex_);
    for (const std::size_t device : devices_) {
      --progress_->at_work_[device];
    }
  }
}

}  // namespace kime
