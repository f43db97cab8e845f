// Scheduled work and events: on one stream, between streams and devices, and when something fails.
#include <atomic>
#include <thread>

#include "tests/runtime/rig.h"

namespace kime::test {

namespace {

Status fails_with(const std::string& what) {
  return Error(ErrorKind::device, what);
}

}  // namespace

TEST_CASE("await and is_idle of a stream and of a device") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const Stream a = rig.stream();
  const Stream b = rig.stream();
  CHECK(get(rig.runtime.is_idle(rig.device())));
  Gate gate;
  std::atomic<int> ran = 0;
  ok(rig.runtime.schedule_task(b, [&] {
    gate.pass();
    ++ran;
    return Status();
  }));
  gate.await_someone();
  CHECK(get(rig.runtime.is_idle(a)));
  CHECK_FALSE(get(rig.runtime.is_idle(b)));
  CHECK_FALSE(get(rig.runtime.is_idle(rig.device())));
  ok(rig.runtime.schedule_task(rig.device(), [&] {  // the first stream's
    ++ran;
    return Status();
  }));
  ok(rig.runtime.await(a));
  CHECK(ran == 1);
  gate.open();
  ok(rig.runtime.await(rig.device()));
  CHECK(ran == 2);
  CHECK(get(rig.runtime.is_idle(b)));
  CHECK(get(rig.runtime.is_idle(rig.device())));
}

TEST_CASE("a stream is not idle while its device works, though its queue is empty", "[threads]") {
  Rig rig(fake(1, true));
  const FakeCheckpoint checkpoint(1);
  const Lane lane(rig, checkpoint, 0);
  rig.faults().on_token(66, FakeFault::hang);
  Work work(66);
  ok(work.schedule(rig.runtime, lane.routine));
  static_cast<void>(get(rig.runtime.all_work(lane.context)));
  REQUIRE(rig.faults().wait_hanging(1));
  CHECK_FALSE(get(rig.runtime.is_idle(lane.stream)));
  CHECK_FALSE(get(rig.runtime.is_idle(rig.device())));
  rig.faults().release();
  ok(rig.runtime.await(lane.stream));
  CHECK(get(rig.runtime.is_idle(lane.stream)));
  CHECK(work.right(checkpoint.seed()));
}

TEST_CASE("await reports the first failure of a stream or a device, once") {
  Rig rig(fake(1, false));
  const Stream a = rig.stream();
  const Stream b = rig.stream();
  ok(rig.runtime.schedule_task(b, [] { return fails_with("bad task"); }));
  ok(rig.runtime.await(a));
  SECTION("of a stream") {
    CHECK(why(rig.runtime.await(b)) == "device: bad task");
  }
  SECTION("of a device") {
    CHECK(why(rig.runtime.await(rig.device())) == "device: bad task");
  }
  ok(rig.runtime.await(b));
  ok(rig.runtime.await(rig.device()));
}

TEST_CASE("an event is done when what was before it is, not what came after") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const Stream stream = rig.stream();
  Gate first;
  Gate second;
  const auto pass = [](Gate& gate) {
    return [&gate] {
      gate.pass();
      return Status();
    };
  };
  ok(rig.runtime.schedule_task(stream, pass(first)));
  const Event event = get(rig.runtime.all_work(stream));
  ok(rig.runtime.schedule_task(stream, pass(second)));
  CHECK_FALSE(get(rig.runtime.is_done(event)));
  CHECK_FALSE(get(rig.runtime.sync_until(event, in(5))));
  first.open();
  ok(rig.runtime.sync(event));
  CHECK(get(rig.runtime.is_done(event)));
  CHECK_FALSE(get(rig.runtime.is_idle(stream)));
  second.open();
  ok(rig.runtime.await(stream));
}

TEST_CASE("an event of a device comes after all of its streams, and has their failures") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const Stream a = rig.stream();
  const Stream b = rig.stream();
  Gate gate;
  ok(rig.runtime.schedule_task(b, [&] {
    gate.pass();
    return fails_with("in b");
  }));
  const Event event = get(rig.runtime.all_work(rig.device()));
  CHECK_FALSE(get(rig.runtime.is_done(event)));
  gate.open();
  CHECK(why(rig.runtime.sync(event)) == "device: in b");
  CHECK(why(rig.runtime.is_done(event)) == "device: in b");
  ok(rig.runtime.await(a));
}

TEST_CASE("an event of a context has the failures of that context only") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const FakeCheckpoint checkpoint(2);
  const Lane one(rig, checkpoint, 0);
  // Two contexts on one stream.
  const Context other = rig.child(one.root, one.stream);
  const auto routine = get(rig.runtime.link(other, rig.code(checkpoint)));
  rig.faults().on_token(500, FakeFault::soft);
  Work bad(500);
  Work good(1);
  ok(bad.schedule(rig.runtime, one.routine));
  const Event broken = get(rig.runtime.all_work(one.context));
  ok(good.schedule(rig.runtime, routine));
  const Event fine = get(rig.runtime.all_work(routine.context));
  ok(rig.runtime.sync(fine));
  CHECK(good.right(checkpoint.seed()));
  CHECK(why(rig.runtime.sync(broken)) == "device: a run on fake:0 failed");
  CHECK(why(rig.runtime.is_done(broken)) == "device: a run on fake:0 failed");
  // The context works again.
  Work again(2);
  ok(again.schedule(rig.runtime, one.routine));
  ok(rig.runtime.sync(get(rig.runtime.all_work(one.context))));
  CHECK(again.right(checkpoint.seed()));
}

TEST_CASE("a context on a stream waits for an event of another device") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const Stream a = rig.stream(0);
  const Stream b = rig.stream(1);
  const Context waiting = get(rig.runtime.make_context(rig.device(1), b));
  Gate gate;
  std::atomic<bool> first = false;
  bool in_order = false;
  ok(rig.runtime.schedule_task(a, [&] {
    gate.pass();
    first = true;
    return Status();
  }));
  ok(rig.runtime.will_wait_for(waiting, get(rig.runtime.all_work(a))));
  ok(rig.runtime.schedule_task(b, [&] {
    in_order = first;
    return Status();
  }));
  CHECK_FALSE(get(rig.runtime.is_idle(b)));
  gate.open();
  ok(rig.runtime.await(b));
  CHECK(in_order);
}

TEST_CASE("a device's work waits for a run of another device that its own thread does not see", "[threads]") {
  const bool same = GENERATE(false, true);
  Rig rig(fake(2, true));
  const FakeCheckpoint checkpoint(5);
  const Lane a(rig, checkpoint, 0);
  const Lane b(rig, checkpoint, same ? 0 : 1);
  rig.faults().on_token(77, FakeFault::hang);
  Work slow(77);
  ok(slow.schedule(rig.runtime, a.routine));
  ok(rig.runtime.will_wait_for(b.context, get(rig.runtime.all_work(a.context))));
  Work behind(3);
  ok(behind.schedule(rig.runtime, b.routine));
  const Event event = get(rig.runtime.all_work(b.context));
  REQUIRE(rig.faults().wait_hanging(1));
  CHECK_FALSE(get(rig.runtime.sync_until(event, in(60))));
  CHECK_FALSE(get(rig.runtime.is_done(event)));
  rig.faults().release();
  ok(rig.runtime.sync(event));
  CHECK(behind.right(checkpoint.seed()));
  CHECK(slow.right(checkpoint.seed()));  // it was before
}

TEST_CASE("who waits for an event that failed fails too, and leaves the failure to its owner") {
  const bool async = GENERATE(false, true);
  const bool collected = GENERATE(false, true);
  const std::size_t other = GENERATE(0U, 1U);
  Rig rig(fake(2, async));
  const FakeCheckpoint checkpoint(5);
  const Lane a(rig, checkpoint, 0);
  const Lane b(rig, checkpoint, other);
  rig.faults().on_token(500, FakeFault::soft);
  Work bad(500);
  Work behind(3);
  behind.forget();
  Gate gate;
  if (collected) {
    ok(rig.runtime.schedule_task(b.stream, [&] {
      gate.pass();
      return Status();
    }));
  }
  ok(bad.schedule(rig.runtime, a.routine));
  const Event event = get(rig.runtime.all_work(a.context));
  ok(rig.runtime.will_wait_for(b.context, event));
  ok(behind.schedule(rig.runtime, b.routine));
  const Event after = get(rig.runtime.all_work(b.context));
  if (collected) {  // even when the owner has taken note before the other stream came to look
    CHECK(why(rig.runtime.sync(event)) == "device: a run on fake:0 failed");
    gate.open();
  }
  CHECK(why(rig.runtime.sync(after)) == "device: a run on fake:0 failed");
  CHECK(why(rig.runtime.sync(event)) == "device: a run on fake:0 failed");
  Work again(4);
  for (const auto* lane : {&a, &b}) {
    ok(again.schedule(rig.runtime, lane->routine));
    ok(rig.runtime.sync(get(rig.runtime.all_work(lane->context))));
    CHECK(again.right(checkpoint.seed()));
  }
}

TEST_CASE("events and contexts of another runtime are refused") {
  Rig rig(fake(1, false));
  Rig other(fake(1, false));
  const Stream stream = other.stream();
  const Event event = get(other.runtime.all_work(stream));
  const Context context = get(rig.runtime.make_context(rig.device(), rig.stream()));
  CHECK(why(rig.runtime.sync(event)) == "device: an event of another runtime");
  CHECK(why(rig.runtime.is_done(event)) == "device: an event of another runtime");
  CHECK(why(rig.runtime.will_wait_for(context, event)) == "device: an event of another runtime");
  CHECK(why(other.runtime.all_work(context)) == "device: a context of another runtime");
  CHECK(why(rig.runtime.sync(Event{})) == "device: an event of another runtime");
  CHECK(why(rig.runtime.all_work(Context{})) == "device: no context");
  const Context no_stream = get(rig.runtime.make_context(rig.device()));
  CHECK(why(rig.runtime.all_work(no_stream)) == "device: the context has no stream");
  CHECK(why(rig.runtime.will_wait_for(no_stream, get(rig.runtime.all_work(rig.device())))) == "device: the context has no stream");
}

TEST_CASE("what streams do is observed, with where and what") {
  Rig rig(fake(2, false));
  std::mutex mutex;
  std::vector<std::string> seen;
  rig.runtime.observe([&](std::size_t ordinal, std::size_t subordinal, const TaskSpan& span) {
    const std::lock_guard lock(mutex);
    seen.push_back(std::to_string(ordinal) + "." + std::to_string(subordinal) + " " + span.label);
  });
  static_cast<void>(rig.stream(1));
  const Stream stream = rig.stream(1);
  ok(rig.runtime.schedule_task(
      stream, [] { return Status(); }, "mine"));
  ok(rig.runtime.await(stream));
  CHECK(seen == std::vector<std::string>{"1.1 mine", "1.1 mark"});
}

}  // namespace kime::test
