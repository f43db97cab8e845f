// StreamQueue: order, bounds, groups of tasks that fail together, and ends of every kind.
#include "kime/runtime/stream_queue.h"

#include <atomic>
#include <thread>

#include "tests/runtime/rig.h"

namespace kime::test {

namespace {

Error failed(const std::string& what) {
  return {ErrorKind::device, what};
}

/// A queue with its thread, closed in the end.
struct Queue {
  std::atomic<bool> alive{true};
  std::atomic<int> observed{0};
  std::shared_ptr<StreamQueue> queue =
      std::make_shared<StreamQueue>([this] { return alive.load(); }, [this](const TaskSpan& span) { observed += span.end >= span.begin; });

  Queue() {
    ok(queue->start([](const std::function<void()>& body) { body(); }, nullptr));
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() { queue->close(); }
  StreamQueue* operator->() const { return queue.get(); }
  Ticket add(Task task, TaskGroup group = kNoGroup) const { return get(queue->schedule(std::move(task), "test", group)); }
};

}  // namespace

TEST_CASE("tasks run in the order in which they were scheduled") {
  const Queue queue;
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    CHECK(queue.add([&order, i] {
      order.push_back(i);
      return Status();
    }) == static_cast<Ticket>(i + 1));
  }
  CHECK(get(queue->wait(queue->last(), kNoGroup)));
  REQUIRE(order.size() == 1000);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(queue->idle());
  CHECK(queue.observed == 1000);
}

TEST_CASE("a full queue makes schedule wait", "[threads]") {
  const Queue queue;
  Gate gate;
  queue.add([&] {
    gate.pass();
    return Status();
  });
  gate.await_someone();
  for (std::size_t i = 1; i < StreamQueue::kCapacity; ++i) {
    queue.add([] { return Status(); });
  }
  std::atomic<bool> scheduled = false;
  std::thread more([&] {
    queue.add([] { return Status(); });
    scheduled = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_FALSE(scheduled);
  CHECK_FALSE(queue->idle());
  gate.open();
  more.join();
  CHECK(scheduled);
}

TEST_CASE("a task's captures are destroyed before anyone is told that it has run") {
  const Queue queue;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  const Ticket ticket = queue.add([held = std::move(held)] { return Status(); });
  CHECK(get(queue->wait(ticket, kNoGroup)));
  CHECK(seen.expired());
}

TEST_CASE("a failed task's group is skipped until the failure has been collected; others go on") {
  const Queue queue;
  std::atomic<int> same = 0;
  std::atomic<int> other = 0;
  const auto count = [](std::atomic<int>& counter) {
    return [&counter] {
      ++counter;
      return Status();
    };
  };
  queue.add([] { return Status(failed("first")); }, 1);
  const Ticket skipped = queue.add(count(same), 1);
  const Ticket ran = queue.add(count(other), 2);
  CHECK(get(queue->wait(ran, 2)));
  CHECK(other == 1);
  CHECK(same == 0);
  SECTION("left to its owner") {
    CHECK(why(queue->wait(skipped, 1, {}, StreamQueue::Failures::leave)) == "device: first");
    CHECK(get(queue->wait(queue.add(count(same), 2), 2)));
    CHECK(why(queue->wait(queue.add(count(same), 1), 1, {}, StreamQueue::Failures::leave)) == "device: first");
    CHECK(same == 1);
  }
  SECTION("collected by its owner") {
    CHECK(why(queue->wait(skipped, 1)) == "device: first");
    CHECK(get(queue->wait(queue.add(count(same), 1), 1)));
    CHECK(same == 1);
  }
  SECTION("collected by one that waits for all") {
    CHECK(why(queue->wait(ran, kNoGroup)) == "device: first");
    CHECK(get(queue->wait(queue.add(count(same), 1), 1)));
  }
}

TEST_CASE("a task of no group fails alone") {
  const Queue queue;
  std::atomic<int> ran = 0;
  const Ticket bad = queue.add([] { return Status(failed("alone")); });
  const Ticket good = queue.add([&] {
    ++ran;
    return Status();
  });
  CHECK(get(queue->wait(good, 5)));
  CHECK(ran == 1);
  CHECK(why(queue->wait(good, kNoGroup)) == "device: alone");
  // Its own ticket says so to every group.
  CHECK(why(queue->passed(bad, 5)) == "device: alone");
}

TEST_CASE("what a ticket failed with stays its own after the failure has been collected") {
  const Queue queue;
  const Ticket before = queue.add([] { return Status(); }, 1);
  queue.add([] { return Status(failed("broken")); }, 1);
  const Ticket after = queue.add([] { return Status(); }, 1);
  CHECK(why(queue->wait(after, 1)) == "device: broken");
  const Ticket later = queue.add([] { return Status(); }, 1);
  CHECK(get(queue->wait(later, 1)));
  for (int i = 0; i < 2; ++i) {
    CHECK(why(queue->wait(after, 1, {}, StreamQueue::Failures::leave)) == "device: broken");
    CHECK(why(queue->passed(after, 1)) == "device: broken");
    CHECK(get(queue->passed(before, 1)));
    CHECK(get(queue->passed(later, 1)));
  }
}

TEST_CASE("failures that nobody collects do not pile up, nor those that were") {
  const Queue queue;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 500; ++i) {
    tickets.push_back(queue.add([i] { return Status(failed("number " + std::to_string(i))); }));
  }
  CHECK(why(queue->wait(tickets[499], kNoGroup, {}, StreamQueue::Failures::leave)) == "device: number 0");
  CHECK(why(queue->wait(tickets[100], kNoGroup)) == "device: number 0");
  CHECK(why(queue->wait(tickets[499], kNoGroup)) == "device: number 499");
  CHECK(get(queue->wait(queue.add([] { return Status(); }), kNoGroup)));
  for (TaskGroup group = 1; group < 500; ++group) {
    const Ticket ticket = queue.add([] { return Status(failed("again")); }, group);
    CHECK(why(queue->wait(ticket, group)) == "device: again");
    CHECK(get(queue->wait(queue.add([] { return Status(); }, group), group)));
  }
}

TEST_CASE("a wait ends at its deadline", "[threads]") {
  const Queue queue;
  Gate gate;
  const Ticket ticket = queue.add([&] {
    gate.pass();
    return Status();
  });
  CHECK_FALSE(get(queue->wait(ticket, kNoGroup, in(10))));
  CHECK_FALSE(get(queue->passed(ticket, kNoGroup)));
  gate.open();
  CHECK(get(queue->wait(ticket, kNoGroup, in(10000))));
  CHECK(get(queue->passed(ticket, kNoGroup)));
}

TEST_CASE("a stream whose device dies with a task is dead, and drops what is queued") {
  Queue queue;
  Gate gate;
  std::atomic<int> ran = 0;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  const Ticket fatal = queue.add([&] {
    gate.pass();
    queue.alive = false;
    return Status(failed("burnt"));
  });
  const Ticket dropped = queue.add([&ran, held = std::move(held)] {
    ++ran;
    return Status();
  });
  gate.open();
  CHECK(why(queue->wait(dropped, 3)) == "device: burnt");
  CHECK(why(queue->wait(fatal, kNoGroup)) == "device: burnt");
  CHECK(why(queue->passed(dropped, 3)) == "device: burnt");
  CHECK(why(queue->schedule([] { return Status(); }, "late")) == "device: burnt");
  REQUIRE(queue->dead());
  CHECK(queue->dead()->message() == "burnt");
  CHECK(queue->idle());
  CHECK(queue->generation() == 2);
  queue->close();
  CHECK(ran == 0);
  CHECK(seen.expired());
}

TEST_CASE("kill wakes all who wait, and a late result is thrown away", "[threads]") {
  const auto faults = std::make_shared<FakeFaults>();
  std::optional<std::thread> waiter;
  const auto observed = std::make_shared<std::atomic<int>>(0);
  std::weak_ptr<int> owner_seen;
  {
    const ReleaseAtEnd release(*faults);
    const auto queue = std::make_shared<StreamQueue>([] { return true; }, [observed](const TaskSpan&) { ++*observed; });
    auto owner = std::make_shared<int>(1);
    owner_seen = owner;
    ok(queue->start([](const std::function<void()>& body) { body(); }, std::move(owner)));
    const Ticket ticket = get(queue->schedule(
        [faults] {
          faults->hang();
          return Status(failed("late"));
        },
        "hang"));
    const Ticket never = get(queue->schedule([] { return Status(); }, "never"));
    std::string told;
    waiter.emplace([&] { told = why(queue->wait(never, 1)); });
    REQUIRE(faults->wait_hanging(1));
    CHECK(queue->generation() == 1);
    queue->kill(failed("given up"));
    queue->kill(failed("a second time"));
    waiter->join();
    CHECK(told == "device: given up");
    CHECK(queue->generation() == 2);
    CHECK_FALSE(queue->idle());  // something is under way still
    CHECK(why(queue->wait(ticket, kNoGroup)) == "device: given up");
    queue->close();  // does not wait for what hangs
    CHECK_FALSE(owner_seen.expired());
    faults->release(true);
    for (int i = 0; i < 10000 && !owner_seen.expired(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(owner_seen.expired());  // the thread kept it until it came out
    CHECK(why(queue->wait(ticket, kNoGroup)) == "device: given up");
    CHECK(queue->idle());
  }
  CHECK(*observed == 0);  // who observed may be gone
}

TEST_CASE("kill wakes one who waits for room", "[threads]") {
  const Queue queue;
  Gate gate;
  queue.add([&] {
    gate.pass();
    return Status();
  });
  gate.await_someone();
  for (std::size_t i = 1; i < StreamQueue::kCapacity; ++i) {
    queue.add([] { return Status(); });
  }
  std::string told;
  std::thread scheduler([&] { told = why(queue->schedule([] { return Status(); }, "more")); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  queue->kill(failed("given up"));
  scheduler.join();
  CHECK(told == "device: given up");
  gate.open();
  while (!queue->idle()) {  // the task uses the gate
    std::this_thread::yield();
  }
}

TEST_CASE("close runs what is queued, once") {
  Queue queue;
  std::atomic<int> ran = 0;
  for (int i = 0; i < 50; ++i) {
    queue.add([&] {
      ++ran;
      return Status();
    });
  }
  queue->close();
  CHECK(ran == 50);
  queue->close();
  CHECK(why(queue->schedule([] { return Status(); }, "late")) == "device: the stream is closed");
  CHECK(get(queue->wait(50, kNoGroup)));
}

TEST_CASE("a task may be as large as its room, moves, and is destroyed once") {
  struct Counted {
    explicit Counted(int* destroyed) : destroyed_(destroyed) {}
    Counted(Counted&& other) noexcept : destroyed_(std::exchange(other.destroyed_, nullptr)) {}
    ~Counted() {
      if (destroyed_ != nullptr) {
        ++*destroyed_;
      }
    }
    Status operator()() { return {}; }
    int* destroyed_;
    std::array<std::byte, Task::kRoom - sizeof(int*)> rest{};
  };
  static_assert(sizeof(Counted) == Task::kRoom);
  int destroyed = 0;
  {
    Task task = Counted(&destroyed);
    CHECK(task);
    Task other = std::move(task);
    CHECK_FALSE(task);  // NOLINT(bugprone-use-after-move): what is asked
    ok(other());
    other = Task([] { return Status(); });
    CHECK(destroyed == 1);
  }
  CHECK(destroyed == 1);
}

}  // namespace kime::test
