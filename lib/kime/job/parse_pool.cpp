#include "kime/job/parse_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace kime {

void LineChunk::add(std::string_view text, bool too_long, const Where& where, std::uint64_t position) {
  if (count_ == entries_.size()) {
    entries_.emplace_back();
  }
  Entry& entry = entries_[count_++];
  entry.where = where;
  entry.position = position;
  entry.begin = text_.size();
  entry.length = text.size();
  entry.too_long = too_long;
  text_ += text;
}

void LineChunk::clear() {
  text_.clear();
  count_ = 0;
}

void LineChunk::parse(LineParser& parser) {
  for (std::size_t i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    entry.error = parser.parse(std::string_view(text_).substr(entry.begin, entry.length), entry.too_long, entry.record);
  }
}

ParsePool::ParsePool(LineRules rules, std::size_t threads)
    : rules_(std::move(rules)),
      parser_(rules_),
      helpers_most_(std::max<std::size_t>(threads, 1) - 1),
      most_(helpers_most_ == 0 ? 1 : 3 * (helpers_most_ + 1)) {
}

ParsePool::~ParsePool() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  work_.notify_all();
  for (auto& helper : helpers_) {
    helper.join();
  }
}

void ParsePool::push(std::unique_ptr<LineChunk>& chunk) {
  Job job{.chunk = std::exchange(chunk, nullptr)};
  if (spare_.empty()) {
    chunk = std::make_unique<LineChunk>();
  } else {
    chunk = std::move(spare_.back());
    spare_.pop_back();
  }
  {
    const std::lock_guard lock(mutex_);
    chunks_.push_back(std::move(job));
  }
  // The first is the caller's: a short input, and one that comes line by line, needs no other thread.
  if (chunks_.size() > 1 && helpers_.size() < helpers_most_) {
    try {
      helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {  // the system gives no more threads: those that are there do it
      helpers_most_ = helpers_.size();
    }
  }
  work_.notify_one();
}

void ParsePool::pop(std::unique_ptr<LineChunk>& chunk) {
  std::unique_lock lock(mutex_);
  while (chunks_.front().state != Job::State::done) {
    Job* job = take();
    if (job == nullptr) {
      done_.wait(lock, [this] { return chunks_.front().state == Job::State::done; });
      break;
    }
    parse(*job, parser_, lock);
  }
  auto empty = std::exchange(chunk, std::move(chunks_.front().chunk));
  chunks_.pop_front();
  lock.unlock();
  spare_.push_back(std::move(empty));
}

ParsePool::Job* ParsePool::take() {
  const auto waiting = std::ranges::find(chunks_, Job::State::waiting, &Job::state);
  if (waiting == chunks_.end()) {
    return nullptr;
  }
  waiting->state = Job::State::taken;
  return &*waiting;
}

void ParsePool::parse(Job& job, LineParser& parser, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  job.chunk->parse(parser);
  lock.lock();
  job.state = Job::State::done;
}

void ParsePool::help() {
  LineParser parser(rules_);
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = nullptr;
    work_.wait(lock, [&] { return ended_ || (job = take()) != nullptr; });
    if (job == nullptr) {
      return;
    }
    parse(*job, parser, lock);
    if (job == &chunks_.front()) {
      done_.notify_one();
    }
  }
}

}  // namespace kime
