// Devices that are lost, or hang and are given up.
#include <atomic>
#include <thread>

#include "tests/runtime/rig.h"

namespace kime::test {

TEST_CASE("events of a lost device are errors for all who ask, and its streams are dead") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const FakeCheckpoint checkpoint(5);
  const Lane a(rig, checkpoint, 0);
  const Lane b(rig, checkpoint, 1);
  rig.faults().on_token(9000, FakeFault::lost);
  Work fatal(9000);
  const Event before = get(rig.runtime.all_work(a.context));
  ok(rig.runtime.sync(before));
  static_cast<void>(static_cast<bool>(fatal.schedule(rig.runtime, a.routine)));  // may be too late for all of it
  auto event = rig.runtime.all_work(a.context);
  if (event) {
    CHECK(why(rig.runtime.sync(*event)) == "device: fake:0 is lost");
    CHECK(why(rig.runtime.is_done(*event)) == "device: fake:0 is lost");
    ok(rig.runtime.will_wait_for(b.context, *event));
    CHECK(why(rig.runtime.sync(get(rig.runtime.all_work(b.context)))) == "device: fake:0 is lost");
  } else {
    CHECK(why(event) == "device: fake:0 is lost");
  }
  CHECK(get(rig.runtime.is_done(before)));
  static_cast<void>(static_cast<bool>(rig.runtime.await(a.stream)));
  const auto lost = get(rig.runtime.lost(rig.device(0)));
  REQUIRE(lost);
  CHECK_THAT(lost->message(), Contains("fake:0"));
  CHECK_FALSE(get(rig.runtime.lost(rig.device(1))));
  CHECK_FALSE(rig.runtime.new_virtual_device(rig.device(0)));
  Work fine(1);
  ok(fine.schedule(rig.runtime, b.routine));
  ok(rig.runtime.sync(get(rig.runtime.all_work(b.context))));
  CHECK(fine.right(checkpoint.seed()));
}

TEST_CASE("a hanging device is given up: whoever waits is told, and a late result goes nowhere", "[threads]") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const FakeCheckpoint checkpoint(5);
  std::atomic<int> observed_late = 0;
  std::atomic<bool> given_up = false;
  rig.runtime.observe([&](std::size_t ordinal, std::size_t, const TaskSpan&) { observed_late += given_up && ordinal == 0; });
  const Lane a(rig, checkpoint, 0);
  const Stream second = rig.stream(0);
  const Lane b(rig, checkpoint, 1);
  rig.faults().on_token(77, FakeFault::hang);
  const auto work = std::make_shared<Work>(77);
  work->forget();
  ok(work->schedule(rig.runtime, a.routine));
  const Event event = get(rig.runtime.all_work(a.context));
  ok(rig.runtime.will_wait_for(b.context, event));
  const Event waiting = get(rig.runtime.all_work(b.context));
  REQUIRE(rig.faults().wait_hanging(1));
  CHECK_FALSE(get(rig.runtime.sync_until(event, in(10))));
  CHECK_FALSE(get(rig.runtime.is_done(event)));
  std::string told;
  std::thread waiter([&] { told = why(rig.runtime.sync(event)); });
  ok(rig.runtime.set_aside(rig.device(0), work));
  given_up = true;
  ok(rig.runtime.retire(rig.device(0), Error(ErrorKind::device, "too slow")));
  ok(rig.runtime.retire(rig.device(0), Error(ErrorKind::device, "again")));
  waiter.join();
  CHECK(told == "device: too slow");
  CHECK(why(rig.runtime.is_done(event)) == "device: too slow");
  CHECK(why(rig.runtime.sync(event)) == "device: too slow");
  CHECK(why(rig.runtime.sync(waiting)) == "device: too slow");
  CHECK(get(rig.runtime.lost(rig.device(0)))->message() == "too slow");
  CHECK(why(rig.runtime.schedule_task(second, [] { return Status(); })) == "device: too slow");
  CHECK(why(rig.runtime.new_virtual_device(rig.device(0))) == "device: too slow");
  CHECK(why(rig.runtime.alloc_pool(rig.device(0), 1, 8, 8, MemoryMode::device)) == "device: too slow");
  // Its memory is set aside: the call that hangs may still use it.
  const std::size_t used = get(rig.runtime.get_used_memory(rig.device(0)));
  ok(rig.runtime.finalize(a.routine.context));
  ok(rig.runtime.finalize(a.context));
  CHECK(get(rig.runtime.get_used_memory(rig.device(0))) == used);
  CHECK(rig.ledger().live(0) >= used);
  Work fine(1);
  ok(fine.schedule(rig.runtime, b.routine));
  ok(rig.runtime.sync(get(rig.runtime.all_work(b.context))));
  CHECK(fine.right(checkpoint.seed()));
  const bool late = GENERATE(false, true);
  if (late) {  // it comes back after clean-up
    rig.runtime.unsafe_cleanup();
    rig.faults().release(true);
    CHECK(rig.ledger().wait_empty());
  } else {
    rig.faults().release(true);
    rig.runtime.unsafe_cleanup();
  }
  CHECK(observed_late == 0);
}

TEST_CASE("memory of a lost device is set aside: its streams may still be in something", "[threads]") {
  Rig rig(fake(1, true));
  const FakeCheckpoint checkpoint(5);
  const Lane a(rig, checkpoint, 0);
  const Stream second = rig.stream(0);
  const Context context = rig.child(a.root, second);
  const auto routine = get(rig.runtime.link(context, rig.code(checkpoint)));
  rig.faults().on_token(77, FakeFault::hang);
  rig.faults().on_token(78, FakeFault::lost);
  Work slow(77);
  Work fatal(78);
  ok(slow.schedule(rig.runtime, a.routine));
  REQUIRE(rig.faults().wait_hanging(1));
  static_cast<void>(static_cast<bool>(fatal.schedule(rig.runtime, routine)));
  CHECK_FALSE(rig.runtime.await(second));
  ok(rig.runtime.finalize(a.routine.context));
  ok(rig.runtime.finalize(a.context));
  rig.faults().release(true);  // it goes on with what it has
}

TEST_CASE("a failure of work without an event is not lost when memory goes: the next event of its context has it") {
  Rig rig(fake(1, true));
  const FakeCheckpoint checkpoint(5);
  const Lane a(rig, checkpoint, 0);
  const Context other = rig.child(a.root, a.stream);
  ok(rig.runtime.need(other, Node::collected, 8, MemoryMode::device));
  rig.faults().on_token(500, FakeFault::soft);
  Work bad(500);
  ok(bad.schedule(rig.runtime, a.routine));
  ok(rig.runtime.finalize(other));
  const Event event = get(rig.runtime.all_work(a.context));
  CHECK(why(rig.runtime.sync(event)) == "device: a run on fake:0 failed");
  CHECK(why(rig.runtime.is_done(event)) == "device: a run on fake:0 failed");
  // The context works again.
  Work good(1);
  ok(good.schedule(rig.runtime, a.routine));
  ok(rig.runtime.sync(get(rig.runtime.all_work(a.context))));
  CHECK(good.right(checkpoint.seed()));
}

TEST_CASE("of contexts on one stream each has its own late failures, and no other's", "[threads]") {
  Rig rig(fake(1, true));
  const FakeCheckpoint checkpoint(5);
  const Lane a(rig, checkpoint, 0);
  const Context other = rig.child(a.root, a.stream);
  const auto routine = get(rig.runtime.link(other, rig.code(checkpoint)));
  rig.faults().on_token(500, FakeFault::soft);
  Work bad(500);
  Work good(1);
  Work more(2);
  ok(good.schedule(rig.runtime, routine));
  ok(bad.schedule(rig.runtime, a.routine));
  ok(more.schedule(rig.runtime, routine));
  const Event fine = get(rig.runtime.all_work(other));
  const Event broken = get(rig.runtime.all_work(a.context));
  ok(rig.runtime.sync(fine));
  CHECK(more.right(checkpoint.seed()));
  CHECK(why(rig.runtime.sync(broken)) == "device: a run on fake:0 failed");
  ok(rig.runtime.sync(fine));
}

TEST_CASE("a device that hangs for a stream and dies for another is left to itself at clean-up", "[threads]") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const FakeCheckpoint checkpoint(5);
  const Lane a(rig, checkpoint, 0);
  const Stream second = rig.stream(0);
  const auto routine = get(rig.runtime.link(rig.child(a.root, second), rig.code(checkpoint)));
  rig.faults().on_token(77, FakeFault::hang);
  rig.faults().on_token(78, FakeFault::lost);
  const auto hang = std::make_shared<Work>(77);
  const auto fatal = std::make_shared<Work>(78);
  ok(rig.runtime.set_aside(rig.device(), hang));
  ok(hang->schedule(rig.runtime, a.routine));
  REQUIRE(rig.faults().wait_hanging(1));
  static_cast<void>(static_cast<bool>(fatal->schedule(rig.runtime, routine)));
  CHECK_THAT(why(rig.runtime.await(second)), Contains("fake:0 is lost"));
  rig.runtime.unsafe_cleanup();  // comes back
  CHECK(rig.faults().hanging() == 1);
}

}  // namespace kime::test
