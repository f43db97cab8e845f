// The runtime's end: nothing leaks, nothing of before works, and it can begin again.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/rig.h"

namespace kime::test {

TEST_CASE("after clean-up every handle says that its runtime is gone, also once it is initialized again") {
  const bool async = GENERATE(false, true);
  const bool again = GENERATE(false, true);
  Rig rig(fake(2, async));
  const FakeCheckpoint checkpoint(1);
  const Device device = rig.device();
  const Stream stream = rig.stream();
  const Event event = get(rig.runtime.all_work(stream));
  const Context root = rig.root(checkpoint, stream);
  const Context child = rig.child(root, stream);
  const auto code = rig.code(checkpoint);
  const auto routine = get(rig.runtime.link(child, code));
  const auto merge =
      get(rig.runtime.link(child, get(rig.runtime.compile(MergeSource{Rig::kBucket, 1, {Node::outputs, MergeUse::copy}}, "m"))));
  const Work work(1);
  rig.runtime.unsafe_cleanup();
  CHECK(rig.ledger().wait_empty());
  CHECK(rig.ledger().streams == 0);
  rig.runtime.unsafe_cleanup();  // again: nothing
  if (again) {
    ok(rig.runtime.initialize(rig.config()));
    static_cast<void>(rig.stream());
  }
  const auto gone = [](const std::string& what) { return "device: " + what + " of a runtime that has been cleaned up"; };
  CHECK(why(rig.runtime.get_name(device)) == gone("a device"));
  CHECK(why(rig.runtime.to_ordinal(device)) == gone("a device"));
  CHECK(why(rig.runtime.new_virtual_device(device)) == gone("a device"));
  CHECK(why(rig.runtime.suggested_num_virtual_devices(device)) == gone("a device"));
  CHECK(why(rig.runtime.properties(device)) == gone("a device"));
  CHECK(why(rig.runtime.caps(device)) == gone("a device"));
  CHECK(why(rig.runtime.alloc_pool(device, 1, 8, 8, MemoryMode::device)) == gone("a device"));
  CHECK(why(rig.runtime.free_pool(device, 1)) == gone("a device"));
  CHECK(why(rig.runtime.get_used_memory(device)) == gone("a device"));
  CHECK(why(rig.runtime.get_debug_info(device)) == gone("a device"));
  CHECK(why(rig.runtime.make_context(device)) == gone("a device"));
  CHECK(why(rig.runtime.await(device)) == gone("a device"));
  CHECK(why(rig.runtime.is_idle(device)) == gone("a device"));
  CHECK(why(rig.runtime.all_work(device)) == gone("a device"));
  CHECK(why(rig.runtime.retire(device, Error(ErrorKind::device, "x"))) == gone("a device"));
  CHECK(why(rig.runtime.lost(device)) == gone("a device"));
  CHECK(why(rig.runtime.get_name(stream)) == gone("a stream"));
  CHECK(why(rig.runtime.schedule_task(stream, [] { return Status(); })) == gone("a stream"));
  CHECK(why(rig.runtime.await(stream)) == gone("a stream"));
  CHECK(why(rig.runtime.memset_zero(stream, 1, 0, 0)) == gone("a stream"));
  CHECK(why(rig.runtime.sync(event)) == gone("an event"));
  CHECK(why(rig.runtime.is_done(event)) == gone("an event"));
  CHECK(why(rig.runtime.make_child(root)) == gone("a context"));
  CHECK(why(rig.runtime.finalize(child)) == gone("a context"));
  CHECK(why(rig.runtime.get_buffer(root, Node::weights)) == gone("a context"));
  CHECK(why(rig.runtime.all_work(child)) == gone("a context"));
  CHECK(why(rig.runtime.link(child, code)) == gone("code"));
  CHECK(why(rig.runtime.expected_merge_nodes({code})) == gone("code"));
  CHECK(why(rig.runtime.launch(routine, work.launch())) == gone("a context"));
  CHECK(why(rig.runtime.launch(merge, {.counts = {}, .slot = 0})) == gone("a context"));
  CHECK(why(work.bring(rig.runtime, child)) == gone("a context"));
  // Words need no runtime.
  CHECK(rig.runtime.describe(routine)["code"] == "code");
  CHECK(rig.runtime.describe(event)["stream"] == "fake:0.0");
}

TEST_CASE("clean-up does first what is queued") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  std::atomic<int> ran = 0;
  for (const std::size_t ordinal : {0U, 1U}) {
    const Stream stream = rig.stream(ordinal);
    for (int i = 0; i < 30; ++i) {
      ok(rig.runtime.schedule_task(stream, [&] {
        ++ran;
        return Status();
      }));
    }
  }
  rig.runtime.unsafe_cleanup();
  CHECK(ran == 60);
}

TEST_CASE("a runtime begins again as often as it is asked to, with any configuration, and leaves nothing") {
  const bool async = GENERATE(false, true);
  const FakeCheckpoint checkpoint(9);
  Multidev<FakeDriver> runtime;
  const auto ledger = std::make_shared<FakeLedger>();
  for (std::size_t devices = 1; devices <= 4; ++devices) {
    auto config = fake(devices, async);
    config.ledger = ledger;
    ok(runtime.initialize({config, {}}));
    CHECK(get(runtime.num_devices()) == devices);
    for (std::size_t ordinal = 0; ordinal < devices; ++ordinal) {
      const Device device = get(runtime.get_device(ordinal));
      const Stream stream = get(runtime.new_virtual_device(device));
      const Context root = get(runtime.make_context(device));
      const auto model = get(runtime.model(std::make_shared<const Graph>(), checkpoint.source()));
      ok(runtime.init_from_host(root, stream, model, checkpoint.source()));
      const Context child = get(runtime.make_child(root, {.device = {}, .stream = stream, .options = {}, .merge = {}}));
      const auto code = get(runtime.compile(GraphSource<FakeDriver>{model, Rig::kBucket}, "code"));
      const Work work(1);
      ok(work.schedule(runtime, get(runtime.link(child, code))));
      ok(runtime.await(stream));
      CHECK(work.right(checkpoint.seed()));
    }
    runtime.unsafe_cleanup();
    CHECK(ledger->wait_empty());
    CHECK(ledger->streams == 0);
  }
  CHECK(ledger->violations().empty());
}

TEST_CASE("a runtime at rest costs nothing", "[threads]") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < 64; ++i) {
    streams.push_back(rig.stream(i % 2));
    ok(rig.runtime.schedule_task(streams.back(), [] { return Status(); }));
  }
  for (const Stream& stream : streams) {
    ok(rig.runtime.await(stream));
  }
  const auto cpu = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto micros = [](const timeval& time) { return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec); };
    return micros(used.ru_utime) + micros(used.ru_stime);
  };
  const auto before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK((cpu() - before).count() < 5000);
}

}  // namespace kime::test
