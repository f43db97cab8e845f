// Transfers between host and nodes, and from device to device.
#include <thread>

#include "tests/runtime/rig.h"

namespace kime::test {

namespace {

constexpr std::size_t kBytes = 64;

/// A context with a stream, a node of kBytes, and ways in and out.
struct Side {
  Side(Rig& rig, std::size_t ordinal, std::optional<Node> node, std::optional<Stream> on = {})
      : runtime(rig.runtime), stream(on ? *on : rig.stream(ordinal)), context(get(rig.runtime.make_context(rig.device(ordinal), stream))) {
    if (node) {
      ok(rig.runtime.need(context, *node, kBytes, MemoryMode::device));
    }
  }
  void put(Node node, std::uint8_t value) {
    data.assign(kBytes, value);
    pieces = {HostRead{0, data.data(), kBytes}};
    CHECK(get(runtime.from_host(context, node, pieces)));
  }
  std::vector<std::uint8_t> read(Node node) {
    std::vector<std::uint8_t> out(kBytes);
    const std::array<HostWrite, 1> to{HostWrite{0, out.data(), kBytes}};
    CHECK(get(runtime.to_host(context, node, to)));
    ok(runtime.sync(get(runtime.all_work(context))));
    return out;
  }
  Rig::Runtime& runtime;
  Stream stream;
  Context context;
  std::vector<std::uint8_t> data;
  std::array<HostRead, 1> pieces;
};

std::vector<std::uint8_t> all(std::uint8_t value) {
  return std::vector<std::uint8_t>(kBytes, value);
}

}  // namespace

TEST_CASE("from_host and to_host move pieces, and are false where there is no such node") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  Side side(rig, 0, Node::inputs);
  side.put(Node::inputs, 3);
  const std::array<std::uint8_t, 4> word{9, 8, 7, 6};
  const std::array<HostRead, 2> pieces{HostRead{4, word.data(), 4}, HostRead{60, word.data(), 4}};
  CHECK(get(rig.runtime.from_host(side.context, Node::inputs, pieces)));
  auto expected = all(3);
  std::copy(word.begin(), word.end(), expected.begin() + 4);
  std::copy(word.begin(), word.end(), expected.begin() + 60);
  CHECK(side.read(Node::inputs) == expected);
  CHECK_FALSE(get(rig.runtime.from_host(side.context, Node::outputs, pieces)));
  CHECK_FALSE(get(rig.runtime.to_host(side.context, Node::outputs, {})));
}

TEST_CASE("a piece past its node is refused, and nothing is copied") {
  Rig rig(fake(1, false));
  Side side(rig, 0, Node::inputs);
  side.put(Node::inputs, 3);
  std::array<std::uint8_t, 8> word{};
  const std::array<HostRead, 2> in{HostRead{0, word.data(), 8}, HostRead{57, word.data(), 8}};
  CHECK_THAT(why(rig.runtime.from_host(side.context, Node::inputs, in)), Contains("8 bytes at 57 are past pool"));
  const std::array<HostWrite, 1> out{HostWrite{57, word.data(), 8}};
  CHECK_THAT(why(rig.runtime.to_host(side.context, Node::inputs, out)), Contains("8 bytes at 57 are past pool"));
  CHECK(side.read(Node::inputs) == all(3));
  const Context no_stream = get(rig.runtime.make_context(rig.device()));
  CHECK(why(rig.runtime.from_host(no_stream, Node::inputs, in)) == "device: the context has no stream");
}

TEST_CASE("a copy that fails is its context's failure") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  Side side(rig, 0, Node::inputs);
  side.put(Node::inputs, 1);
  ok(rig.runtime.sync(get(rig.runtime.all_work(side.context))));
  rig.faults().chances({.seed = 1, .soft = 0, .lost = 0, .hang = 0, .copy = 1});
  side.put(Node::inputs, 2);
  CHECK(why(rig.runtime.sync(get(rig.runtime.all_work(side.context)))) == "device: a copy on fake:0 failed");
  rig.faults().chances({});
  CHECK(side.read(Node::inputs) == all(1));
  CHECK(rig.faults().injected(FakeFault::copy) == 1);
}

TEST_CASE("to_buffer copies a node to a buffer that its stream reaches") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  Side side(rig, 0, Node::outputs);
  side.put(Node::outputs, 4);
  ok(rig.runtime.alloc_pool(rig.device(0), 1, 100, 8, MemoryMode::device));
  ok(rig.runtime.alloc_pool(rig.device(1), 1, 100, 8, MemoryMode::device));
  const Buffer buffer{0, 1, 36, kBytes};
  ok(rig.runtime.to_buffer(side.context, Node::outputs, buffer));
  std::vector<std::uint8_t> out(kBytes);
  ok(rig.runtime.buffer_to_host(side.stream, buffer, out.data(), kBytes));
  ok(rig.runtime.await(side.stream));
  CHECK(out == all(4));
  CHECK(why(rig.runtime.to_buffer(side.context, Node::inputs, buffer)) == "device: the context has no inputs");
  CHECK_THAT(why(rig.runtime.to_buffer(side.context, Node::outputs, Buffer{0, 1, 37, kBytes})), Contains("64 bytes at 37 are past pool 1"));
  CHECK(why(rig.runtime.to_buffer(side.context, Node::outputs, Buffer{1, 1, 0, kBytes})) == "device: fake:0 cannot use a buffer of fake:1");
}

TEST_CASE("weights come from the host once, and to other devices from there") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const FakeCheckpoint checkpoint(77);
  const Stream a = rig.stream(0);
  const Stream b = rig.stream(1);
  const Context first = rig.root(checkpoint, a);
  const Context second = get(rig.runtime.make_context(rig.device(1)));
  ok(rig.runtime.init_from_device(second, Node::weights, first, b));
  CHECK(rig.ledger().loads == 1);
  CHECK(get(rig.runtime.get_buffer(second, Node::weights))->device == 1);
  const auto routine = get(rig.runtime.link(rig.child(second, b), rig.code(checkpoint)));
  const Work work(1);
  ok(work.schedule(rig.runtime, routine));
  ok(rig.runtime.await(b));
  CHECK(work.right(checkpoint.seed()));
  const Context empty = get(rig.runtime.make_context(rig.device(1)));
  CHECK(why(rig.runtime.init_from_device(second, Node::weights, empty, b)) == "device: the source has no weights");
  CHECK(why(rig.runtime.init_from_device(empty, Node::weights, first, a)) == "device: fake:0 cannot use a buffer of fake:1");
}

TEST_CASE("init_from_device copies what has been scheduled in the source, and fails where that failed") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  Side src(rig, 0, Node::outputs);
  const Stream stream = rig.stream(1);
  const Context dst = get(rig.runtime.make_context(rig.device(1), stream));
  Gate gate;
  ok(rig.runtime.schedule_task(src.stream, [&] {
    gate.pass();
    return Status();
  }));
  src.put(Node::outputs, 6);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    gate.open();
  });
  ok(rig.runtime.init_from_device(dst, Node::outputs, src.context, stream));
  opener.join();
  std::vector<std::uint8_t> out(kBytes);
  ok(rig.runtime.buffer_to_host(stream, *get(rig.runtime.get_buffer(dst, Node::outputs)), out.data(), kBytes));
  ok(rig.runtime.await(stream));
  CHECK(out == all(6));
  rig.faults().chances({.seed = 1, .soft = 0, .lost = 0, .hang = 0, .copy = 1});
  src.put(Node::outputs, 7);
  CHECK(why(rig.runtime.init_from_device(dst, Node::outputs, src.context, stream)) == "device: a copy on fake:0 failed");
}

TEST_CASE("init_from_host: what cannot be read, or loaded, or is not the stream's own") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const FakeCheckpoint checkpoint(7);
  const Stream stream = rig.stream(0);
  const Context root = get(rig.runtime.make_context(rig.device(0)));
  FakeFaults::Plan plan;
  plan.no_load = true;
  rig.faults().plan(0, plan);
  CHECK(why(rig.runtime.init_from_host(root, stream, rig.model(checkpoint), checkpoint.source())) == "device: fake:0 does not load");
  rig.faults().plan(0, {});
  ok(rig.runtime.init_from_host(root, stream, rig.model(checkpoint), checkpoint.source()));
  CHECK(why(rig.runtime.init_from_host(root, rig.stream(1), rig.model(checkpoint), checkpoint.source())) ==
        "device: fake:1 cannot use a buffer of fake:0");
  plan = {};
  plan.no_memory = true;
  rig.faults().plan(1, plan);
  const Context other = get(rig.runtime.make_context(rig.device(1)));
  CHECK(why(rig.runtime.init_from_host(other, rig.stream(1), rig.model(checkpoint), checkpoint.source())) ==
        "device: fake:1 gives no memory");
  ok(rig.runtime.finalize(other));
}

TEST_CASE("device_to_device without a merge") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  Side src(rig, 0, Node::outputs);
  Side dst(rig, 1, Node::outputs);
  Side none(rig, 1, {});
  src.put(Node::outputs, 5);
  ok(rig.runtime.will_wait_for(dst.context, get(rig.runtime.all_work(src.context))));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, MergeUse::none, dst.context, src.context)));
  CHECK(dst.read(Node::outputs) == all(5));
  // False where dst lacks the node; an error where only src does.
  CHECK_FALSE(get(rig.runtime.device_to_device(Node::outputs, MergeUse::none, none.context, src.context)));
  CHECK_FALSE(get(rig.runtime.device_to_device(Node::inputs, MergeUse::none, none.context, src.context)));
  CHECK(why(rig.runtime.device_to_device(Node::outputs, MergeUse::none, dst.context, none.context)) == "device: the source has no outputs");
  for (const MergeUse use : {MergeUse::copy, MergeUse::streaming}) {
    CHECK(why(rig.runtime.device_to_device(Node::outputs, use, none.context, none.context)) == "device: the source has no outputs");
  }
  // What is inherited is there already.
  const Context child = get(rig.runtime.make_child(src.context));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, MergeUse::none, child, src.context)));
  CHECK(src.read(Node::outputs) == all(5));
}

TEST_CASE("Copy fills the merge buffer of the destination, which grows and is freed with it") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  Side src(rig, 0, Node::outputs);
  Side dst(rig, 1, {});
  src.put(Node::outputs, 8);
  ok(rig.runtime.will_wait_for(dst.context, get(rig.runtime.all_work(src.context))));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, MergeUse::copy, dst.context, src.context)));
  const auto merged = dst.context.state->merge_source;
  REQUIRE(merged);
  CHECK(merged->device == 1);
  CHECK(merged->bytes == kBytes);
  std::vector<std::uint8_t> out(kBytes);
  ok(rig.runtime.buffer_to_host(dst.stream, *merged, out.data(), kBytes));
  ok(rig.runtime.await(dst.stream));
  CHECK(out == all(8));
  ok(rig.runtime.need(src.context, Node::outputs, 2 * kBytes, MemoryMode::device));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, MergeUse::copy, dst.context, src.context)));
  CHECK(get(rig.runtime.get_used_memory(rig.device(1))) == 2 * kBytes);
  ok(rig.runtime.finalize(dst.context));
  CHECK(get(rig.runtime.get_used_memory(rig.device(1))) == 0);
}

TEST_CASE("Streaming remembers the source's buffer, on devices that share memory, and never blocks", "[threads]") {
  auto config = fake(3, false);
  config.devices[1].space = config.devices[0].space;
  Rig rig(config);
  Side src(rig, 0, Node::outputs);
  Side near(rig, 1, {});
  Side far(rig, 2, {});
  Gate gate;
  for (const auto& stream : {src.stream, near.stream}) {
    ok(rig.runtime.schedule_task(stream, [&] {
      gate.pass();
      return Status();
    }));
  }
  CHECK(get(rig.runtime.device_to_device(Node::outputs, MergeUse::streaming, near.context, src.context)));
  CHECK(near.context.state->merge_source == get(rig.runtime.get_buffer(src.context, Node::outputs)));
  CHECK(get(rig.runtime.get_used_memory(rig.device(1))) == 0);
  CHECK(why(rig.runtime.device_to_device(Node::outputs, MergeUse::streaming, far.context, src.context)) ==
        "device: streaming needs devices that share memory");
  gate.open();
  ok(rig.runtime.await(src.stream));
  ok(rig.runtime.await(near.stream));
}

TEST_CASE("a use or a node other than the routine's fails at the call") {
  Rig rig(fake(1, false));
  const Stream stream = rig.stream();
  const Side src(rig, 0, Node::outputs, stream);
  ok(rig.runtime.need(src.context, Node::arena, 8, MemoryMode::device));
  const MergeUse use = GENERATE(MergeUse::copy, MergeUse::streaming);
  const MergeUse other = use == MergeUse::copy ? MergeUse::streaming : MergeUse::copy;
  const Context collecting = get(rig.runtime.make_context(rig.device(), stream));
  const auto code = get(rig.runtime.compile(MergeSource{Rig::kBucket, 2, {Node::outputs, use}}, "merge"));
  const auto merge = get(rig.runtime.link(collecting, code));
  CHECK(why(rig.runtime.device_to_device(Node::outputs, other, merge.context, src.context)) ==
        "device: the destination was linked for outputs by " + std::string(to_string(use)) + ", not outputs by " +
            std::string(to_string(other)));
  CHECK_THAT(why(rig.runtime.device_to_device(Node::arena, use, merge.context, src.context)),
             Contains("was linked for outputs by " + std::string(to_string(use)) + ", not arena by"));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, use, merge.context, src.context)));
}

TEST_CASE("a merge source that has been finalized is an error at the launch") {
  Rig rig(fake(1, false));
  const Stream stream = rig.stream();
  const Side src(rig, 0, Node::outputs, stream);
  const Context collecting = get(rig.runtime.make_context(rig.device(), stream));
  const Bucket bucket{1, 1, 1};
  const auto merge =
      get(rig.runtime.link(collecting, get(rig.runtime.compile(MergeSource{bucket, 1, {Node::outputs, MergeUse::streaming}}, "merge"))));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, MergeUse::streaming, merge.context, src.context)));
  ok(rig.runtime.finalize(src.context));
  CHECK_THAT(why(rig.runtime.launch(merge, {.counts = {}, .slot = 0})), Contains("is not in use"));
}

}  // namespace kime::test
