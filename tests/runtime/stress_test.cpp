// Many threads on many streams of several devices, some of which fail: no deadlock, no wrong score, nothing left behind.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/runtime/rig.h"

namespace kime::test {

namespace {

/// Ends the process, loudly, when it lives for too long.
class Watchdog {
 public:
  Watchdog(std::chrono::seconds limit, std::uint64_t seed) {
    thread_ = std::thread([this, limit, seed] {
      std::unique_lock lock(mutex_);
      if (!moved_.wait_for(lock, limit, [this] { return done_; })) {
        std::fprintf(stderr, "deadlock with seed %llu\n", static_cast<unsigned long long>(seed));
        std::abort();
      }
    });
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    moved_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  bool done_ = false;
  std::thread thread_;
};

std::uint64_t a_seed() {
  if (const char* given = std::getenv("KIME_TEST_SEED")) {
    return std::strtoull(given, nullptr, 10);
  }
  return std::random_device()();
}

/// The last events of all threads, for others to wait for.
class Board {
 public:
  void post(std::size_t place, const Event& event) {
    const std::lock_guard lock(mutex_);
    events_[place % events_.size()] = event;
  }
  std::optional<Event> pick(std::size_t place) {
    const std::lock_guard lock(mutex_);
    return events_[place % events_.size()];
  }

 private:
  std::mutex mutex_;
  std::array<std::optional<Event>, 16> events_;
};

struct Tally {
  std::atomic<int> right{0};
  std::atomic<int> wrong{0};
  std::atomic<int> failed{0};
};

/// One thread's part, with a stream of its own: batches, waits for others, contexts made and finalized.
class Player {
 public:
  Player(Rig& rig, const FakeCheckpoint& checkpoint, Board& board, Tally& tally, std::uint64_t seed)
      : rig_(rig), checkpoint_(checkpoint), board_(board), tally_(tally), random_(seed) {}

  void play(const Context& root, const Stream& stream, int rounds) {
    const auto code = rig_.runtime.compile(GraphSource<FakeDriver>{rig_.model(checkpoint_), Rig::kBucket}, "code");
    const Device device{stream.life, stream.ordinal};
    for (int round = 0; code && round < rounds; ++round) {
      auto context = rig_.runtime.make_child(root, {.device = device, .stream = stream, .options = {}, .merge = {}});
      if (!context) {
        ++tally_.failed;
        return;
      }
      auto routine = rig_.runtime.link(*context, *code);
      if (routine) {
        for (std::size_t i = 1 + below(6); i > 0; --i) {
          batch(*routine, device);
        }
        static_cast<void>(static_cast<bool>(rig_.runtime.finalize(routine->context)));
      } else {
        ++tally_.failed;
      }
      static_cast<void>(static_cast<bool>(rig_.runtime.finalize(*context)));
    }
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  void batch(const Routine<FakeDriver>& routine, const Device& device) {
    const auto work = std::make_shared<Work>(static_cast<std::uint32_t>(below(1000)), 1 + below(6));
    if (below(3) == 0) {
      if (const auto other = board_.pick(below(16))) {
        static_cast<void>(static_cast<bool>(rig_.runtime.will_wait_for(routine.context, *other)));
      }
    }
    const Status scheduled = work->schedule(rig_.runtime, routine);
    auto event = rig_.runtime.all_work(routine.context);
    if (!event) {
      keep(device, work);
      return;
    }
    board_.post(below(16), *event);
    static_cast<void>(static_cast<bool>(rig_.runtime.is_idle(device)));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(rig_.faults().hanging() > 0 ? 100 : 2000);
    const auto done = rig_.runtime.sync_until(*event, deadline);
    if (done && !*done) {
      static_cast<void>(static_cast<bool>(rig_.runtime.retire(device, Error(ErrorKind::device, "given up"))));
    }
    if (!done || !*done || !scheduled) {
      keep(device, work);
      return;
    }
    ++(work->right(checkpoint_.seed()) ? tally_.right : tally_.wrong);
  }
  void keep(const Device& device, const std::shared_ptr<Work>& work) {
    ++tally_.failed;
    static_cast<void>(static_cast<bool>(rig_.runtime.set_aside(device, work)));
  }

  Rig& rig_;
  const FakeCheckpoint& checkpoint_;
  Board& board_;
  Tally& tally_;
  std::mt19937_64 random_;
};

void play(bool async, std::uint64_t seed, const FakeFaults::Chances& chances, int rounds) {
  constexpr std::size_t kDevices = 3;
  constexpr std::size_t kThreads = 8;
  const Watchdog watchdog(std::chrono::seconds(120), seed);
  INFO("KIME_TEST_SEED=" << seed << (async ? " async" : ""));
  auto config = fake(kDevices, async);
  config.devices[1].space = config.devices[0].space;
  const auto faults = config.faults;
  Rig rig(config);
  const FakeCheckpoint checkpoint(11);
  Board board;
  Tally tally;
  std::vector<Stream> streams;
  std::vector<Context> roots;
  for (std::size_t ordinal = 0; ordinal < kDevices; ++ordinal) {
    roots.push_back(rig.root(checkpoint, rig.stream(ordinal)));
  }
  for (std::size_t i = 0; i < kThreads; ++i) {
    streams.push_back(rig.stream(i % kDevices));
  }
  faults->chances(chances);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Player(rig, checkpoint, board, tally, mix(seed, i)).play(roots[i % kDevices], streams[i], rounds); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(tally.wrong == 0);
  CHECK(tally.right + tally.failed > 0);
  if (chances.soft + chances.lost + chances.hang + chances.copy == 0) {
    CHECK(tally.failed == 0);
    for (std::size_t ordinal = 0; ordinal < kDevices; ++ordinal) {
      CHECK(get(rig.runtime.get_used_memory(rig.device(ordinal))) == 64);  // its weights
      ok(rig.runtime.await(rig.device(ordinal)));
    }
  }
  std::printf("seed %llu%s: %d right, %d failed; met %s\n", static_cast<unsigned long long>(seed), async ? " async" : "",
              tally.right.load(), tally.failed.load(), faults->summary().c_str());
}

}  // namespace

TEST_CASE("a random schedule on many streams", "[threads]") {
  const bool async = GENERATE(false, true);
  play(async, a_seed(), {}, 60);
}

TEST_CASE("a random schedule on devices that fail", "[threads]") {
  const bool async = GENERATE(false, true);
  const int which = GENERATE(0, 1, 2, 3);
  const std::uint64_t seed = a_seed();
  FakeFaults::Chances chances{.seed = seed, .soft = 0.05, .lost = 0, .hang = 0, .copy = 0.02};
  if (which == 1) {
    chances.lost = 0.01;
  }
  if (which == 2) {
    chances.hang = 0.01;
  }
  if (which == 3) {
    chances.lost = 0.005;
    chances.hang = 0.005;
  }
  play(async, seed, chances, 40);
}

}  // namespace kime::test
