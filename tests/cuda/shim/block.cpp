#include "tests/cuda/shim/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "tests/cuda/shim/launch.h"

namespace kime::cuda::shim {

namespace {

thread_local Block* running_block = nullptr;

// Fibers are dear to make: a thread keeps those that it has.
std::vector<std::unique_ptr<Fiber>>& spare_fibers() {
  thread_local std::vector<std::unique_ptr<Fiber>> fibers;
  return fibers;
}

std::unique_ptr<Fiber> take_fiber() {
  auto& spare = spare_fibers();
  if (spare.empty()) {
    return std::make_unique<Fiber>();
  }
  std::unique_ptr<Fiber> fiber = std::move(spare.back());
  spare.pop_back();
  return fiber;
}

}  // namespace

Block::Block(std::string_view kernel, dim3 grid, dim3 block, std::size_t dynamic_bytes, std::uint64_t seed, std::function<void()> body)
    : kernel_(kernel),
      grid_(grid),
      size_(block),
      seed_(seed),
      body_(std::move(body)),
      random_(seed),
      global_(registered()),
      dynamic_area_(nullptr, dynamic_bytes),
      dynamic_(dynamic_area_.data, dynamic_bytes) {
  const unsigned count = block.x * block.y * block.z;
  if (count == 0 || count % kWarp != 0 || count > kMostThreads) {
    throw Fault(fmt::format("kernel {}: a block of {} threads; whole warps and at most {} are wanted", kernel_, count, kMostThreads));
  }
  if (dynamic_bytes > kMostDynamicBytes) {
    throw Fault(fmt::format("kernel {}: {} bytes of dynamic shared memory are asked for, {} are the most", kernel_, dynamic_bytes,
                            kMostDynamicBytes));
  }
  for (unsigned i = 0; i < count; ++i) {
    auto thread = std::make_unique<Thread>();
    thread->fiber = take_fiber();
    thread->index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    threads_.push_back(std::move(thread));
  }
  warp_epochs_.assign(count / kWarp, 0);
  guarded_body_ = [this] {
    try {
      body_();
    } catch (...) {
      failure_ = std::current_exception();
    }
  };
}

Block::~Block() {
  for (auto& thread : threads_) {
    spare_fibers().push_back(std::move(thread->fiber));
  }
}

Block& Block::current() {
  return *running_block;
}

void Block::fault(const std::string& what) const {
  const std::string who = in_thread_ ? fmt::format(", thread {}", running_) : "";
  throw Fault(fmt::format("kernel {}, block ({}, {}, {}){}: {} (seed {})", kernel_, at_.x, at_.y, at_.z, who, what, seed_));
}

void Block::require(const std::string& wrong) const {
  if (!wrong.empty()) {
    fault(wrong);
  }
}

void Block::start() {
  first_epoch_ = ++epoch_;
  dynamic_area_.poison();
  for (auto& area : statics_) {
    area->poison();
  }
  for (auto& thread : threads_) {
    thread->state = State::ready;
    thread->uncommitted.clear();
    thread->groups.clear();
    thread->fiber->start(&guarded_body_);
  }
}

void Block::run(uint3 at) {
  Block* const outer = std::exchange(running_block, this);
  at_ = at;
  blockIdx = at;
  blockDim = size_;
  gridDim = grid_;
  struct Restore {
    Block* outer;
    ~Restore() { running_block = outer; }
  } const restore{outer};
  start();
  const auto warps = static_cast<unsigned>(threads_.size() / kWarp);
  std::vector<unsigned> ready;
  do {
    for (;;) {
      ready.clear();
      for (unsigned warp = 0; warp < warps; ++warp) {
        const auto* first = &threads_[warp * kWarp];
        if (std::any_of(first, first + kWarp, [](const auto& thread) { return thread->state == State::ready; })) {
          ready.push_back(warp);
        }
      }
      if (ready.empty()) {
        break;
      }
      step(ready[random_() % ready.size()]);
    }
  } while (release_barrier());
  if (std::any_of(threads_.begin(), threads_.end(), [](const auto& thread) { return thread->state != State::ended; })) {
    report_deadlock();
  }
  for (unsigned i = 0; i < threads_.size(); ++i) {
    const Thread& thread = *threads_[i];
    const bool waits =
        !thread.uncommitted.empty() || std::any_of(thread.groups.begin(), thread.groups.end(), [](const auto& g) { return !g.empty(); });
    if (waits) {
      fault(fmt::format("thread {} ended with copies under way that it never waited for", i));
    }
  }
}

void Block::step(unsigned warp) {
  run_lanes(warp);
  while (settle(warp) && chance(2)) {  // at times a warp runs on, at times another comes in between
    run_lanes(warp);
  }
  if (chance(3)) {
    land_one(warp);
  }
}

// Every lane that can run does, in some order, up to where it meets others.
void Block::run_lanes(unsigned warp) {
  const auto first = static_cast<unsigned>(random_());
  const unsigned stride = static_cast<unsigned>(random_()) | 1U;
  for (unsigned i = 0; i < kWarp; ++i) {
    const unsigned index = warp * kWarp + (first + i * stride) % kWarp;
    Thread& thread = *threads_[index];
    if (thread.state != State::ready) {
      continue;
    }
    running_ = index;
    threadIdx = thread.index;
    in_thread_ = true;
    thread.fiber->resume();
    in_thread_ = false;
    if (failure_) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    if (!thread.fiber->running()) {
      thread.state = State::ended;
    }
  }
}

// When all lanes wait for the same, does it; true when they can go on.
bool Block::settle(unsigned warp) {
  Thread& first = *threads_[warp * kWarp];
  std::array<void*, kWarp> brought{};
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    Thread& thread = *threads_[warp * kWarp + lane];
    if (thread.state != State::meeting || thread.complete != first.complete) {
      return false;
    }
    brought[lane] = thread.brought;
  }
  running_ = warp * kWarp;
  if (first.complete != nullptr) {
    first.complete(brought);
  } else {
    ++warp_epochs_[warp];
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    threads_[warp * kWarp + lane]->state = State::ready;
  }
  return true;
}

bool Block::release_barrier() {
  if (std::any_of(threads_.begin(), threads_.end(), [](const auto& thread) { return thread->state != State::at_barrier; })) {
    return false;
  }
  ++epoch_;
  for (auto& thread : threads_) {
    thread->state = State::ready;
  }
  return true;
}

void Block::report_deadlock() const {
  std::vector<std::pair<std::string, std::vector<unsigned>>> places;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    const Thread& thread = *threads_[i];
    const std::string place = thread.state == State::ended ? "ended" : fmt::format("at {}", thread.meeting);
    auto found = std::find_if(places.begin(), places.end(), [&](const auto& p) { return p.first == place; });
    if (found == places.end()) {
      found = places.insert(places.end(), {place, {}});
    }
    found->second.push_back(i);
  }
  std::string text = "deadlock: not all threads that must meet come:";
  for (const auto& [place, who] : places) {
    text += fmt::format(" {} threads {} (the first: {})", who.size(), place, who.front());
  }
  fault(text);
}

void Block::suspend(State state) {
  const unsigned self = running_;
  threads_[self]->state = state;
  Fiber::suspend();
}

void Block::barrier() {
  threads_[running_]->meeting = "__syncthreads";
  suspend(State::at_barrier);
}

void Block::sync_warp() {
  meet(nullptr, "__syncwarp", nullptr);
}

void Block::meet(Complete complete, const char* name, void* brought) {
  Thread& thread = *threads_[running_];
  thread.complete = complete;
  thread.meeting = name;
  thread.brought = brought;
  suspend(State::meeting);
}

}  // namespace kime::cuda::shim
