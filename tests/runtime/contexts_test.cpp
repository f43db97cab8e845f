// Contexts: what children inherit, and their ends.
#include "tests/runtime/rig.h"

namespace kime::test {

TEST_CASE("a child has what it is given, and the rest from its parent") {
  auto config = fake(3, false);
  config.devices[1].space = config.devices[0].space;
  Rig rig(config);
  const Stream stream = rig.stream(0);
  LoweringOptions options;
  options.limits.bucket_tokens = 99;
  const Context parent = get(rig.runtime.make_context(rig.device(), stream, options));
  ok(rig.runtime.need(parent, Node::weights, 64, MemoryMode::device));

  SECTION("all of it") {
    const Context child = get(rig.runtime.make_child(parent));
    CHECK(child.state->device == 0);
    CHECK(child.state->stream == 0);
    CHECK(child.state->group == parent.state->group);
    CHECK(child.state->options.limits == options.limits);
    CHECK_FALSE(child.state->merge);
    CHECK(get(rig.runtime.get_buffer(child, Node::weights)) == get(rig.runtime.get_buffer(parent, Node::weights)));
    CHECK_FALSE(get(rig.runtime.get_buffer(child, Node::outputs)));
    CHECK(get(rig.runtime.parent(child))->state == parent.state);
    CHECK_FALSE(get(rig.runtime.parent(parent)));
  }
  SECTION("a stream of its own, and a group") {
    const Stream own = rig.stream(0);
    const Context child = get(rig.runtime.make_child(parent, {.device = {}, .stream = own, .options = {}, .merge = {}}));
    CHECK(child.state->stream == 1);
    CHECK_FALSE(child.state->group == parent.state->group);
  }
  SECTION("options and merge node of its own, for its children too") {
    LoweringOptions other;
    other.limits.bucket_tokens = 5;
    const MergeNode merge{Node::outputs, MergeUse::streaming};
    const Context child = get(rig.runtime.make_child(parent, {.device = {}, .stream = {}, .options = other, .merge = merge}));
    const Context grandchild = get(rig.runtime.make_child(child));
    CHECK(grandchild.state->options.limits == other.limits);
    CHECK(grandchild.state->merge == merge);
    CHECK(parent.state->options.limits == options.limits);
  }
  SECTION("a device that shares the memory, and no stream then") {
    const Context child = get(rig.runtime.make_child(parent, {.device = rig.device(1), .stream = {}, .options = {}, .merge = {}}));
    CHECK(child.state->device == 1);
    CHECK_FALSE(child.state->stream);
    CHECK(get(rig.runtime.get_buffer(child, Node::weights))->device == 0);
  }
  SECTION("not a device that does not share it, nor another's stream") {
    CHECK(why(rig.runtime.make_child(parent, {.device = rig.device(2), .stream = {}, .options = {}, .merge = {}})) ==
          "device: the child's device does not share the parent's memory");
    CHECK(why(rig.runtime.make_child(parent, {.device = {}, .stream = rig.stream(1), .options = {}, .merge = {}})) ==
          "device: the stream is another device's");
    CHECK(why(rig.runtime.make_context(rig.device(1), stream)) == "device: the stream is another device's");
    ok(rig.runtime.finalize(parent));  // no child was made
  }
}

TEST_CASE("a buffer that a parent has grown is the one that children see") {
  Rig rig(fake(1, false));
  const Context parent = get(rig.runtime.make_context(rig.device(), rig.stream()));
  const Context child = get(rig.runtime.make_child(parent));
  ok(rig.runtime.need(parent, Node::arena, 100, MemoryMode::device));
  const auto small = get(rig.runtime.get_buffer(child, Node::arena));
  ok(rig.runtime.need(parent, Node::arena, 50, MemoryMode::device));
  CHECK(get(rig.runtime.get_buffer(child, Node::arena)) == small);
  ok(rig.runtime.need(parent, Node::arena, 200, MemoryMode::device));
  CHECK(get(rig.runtime.get_buffer(child, Node::arena))->bytes == 200);
  CHECK(get(rig.runtime.get_used_memory(rig.device())) == 200);
}

TEST_CASE("where a buffer cannot grow, one of the old size stays") {
  auto config = fake(1, false);
  config.devices[0].memory_bytes = 150;
  Rig rig(config);
  const Context context = get(rig.runtime.make_context(rig.device(), rig.stream()));
  ok(rig.runtime.need(context, Node::arena, 100, MemoryMode::device));
  CHECK_THAT(why(rig.runtime.need(context, Node::arena, 200, MemoryMode::device)), Contains("out of memory"));
  CHECK(get(rig.runtime.get_buffer(context, Node::arena))->bytes == 100);
  CHECK(get(rig.runtime.get_used_memory(rig.device())) == 100);
  ok(rig.runtime.need(context, Node::arena, 150, MemoryMode::device));
  ok(rig.runtime.finalize(context));
  CHECK(rig.ledger().live(0) == 0);
}

TEST_CASE("finalize frees what is the context's own, and is refused while children live") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const Context parent = get(rig.runtime.make_context(rig.device(), rig.stream()));
  ok(rig.runtime.need(parent, Node::weights, 64, MemoryMode::device));
  const Context first = get(rig.runtime.make_child(parent));
  const Context second = get(rig.runtime.make_child(parent));
  ok(rig.runtime.need(first, Node::arena, 32, MemoryMode::device));
  ok(rig.runtime.need(first, Node::inputs, 16, MemoryMode::device));
  CHECK(why(rig.runtime.finalize(parent)) == "device: 2 children of the context still live: finalize them first");
  ok(rig.runtime.finalize(second));
  CHECK(why(rig.runtime.finalize(parent)) == "device: 1 child of the context still live: finalize them first");
  CHECK(get(rig.runtime.get_used_memory(rig.device())) == 112);
  ok(rig.runtime.finalize(first));
  CHECK(get(rig.runtime.get_used_memory(rig.device())) == 64);
  ok(rig.runtime.finalize(parent));
  CHECK(get(rig.runtime.get_used_memory(rig.device())) == 0);
  CHECK(rig.ledger().live(0) == 0);
}

TEST_CASE("a context that has been finalized says so, to everyone") {
  Rig rig(fake(1, false));
  const Stream stream = rig.stream();
  const Context gone = get(rig.runtime.make_context(rig.device(), stream));
  const Context live = get(rig.runtime.make_context(rig.device(), stream));
  const Event event = get(rig.runtime.all_work(stream));
  const FakeCheckpoint checkpoint(1);
  ok(rig.runtime.need(live, Node::outputs, 8, MemoryMode::device));
  const auto code = rig.code(checkpoint);
  ok(rig.runtime.finalize(gone));
  const std::string told = "device: the context has been finalized";
  CHECK(why(rig.runtime.finalize(gone)) == told);
  CHECK(why(rig.runtime.make_child(gone)) == told);
  CHECK(why(rig.runtime.parent(gone)) == told);
  CHECK(why(rig.runtime.get_buffer(gone, Node::weights)) == told);
  CHECK(why(rig.runtime.need(gone, Node::arena, 8, MemoryMode::device)) == told);
  CHECK(why(rig.runtime.all_work(gone)) == told);
  CHECK(why(rig.runtime.will_wait_for(gone, event)) == told);
  CHECK(why(rig.runtime.from_host(gone, Node::inputs, {})) == told);
  CHECK(why(rig.runtime.to_host(gone, Node::outputs, {})) == told);
  CHECK(why(rig.runtime.to_buffer(gone, Node::outputs, Buffer{})) == told);
  CHECK(why(rig.runtime.link(gone, code)) == told);
  CHECK(why(rig.runtime.link_batch(gone, {code})) == told);
  CHECK(why(rig.runtime.init_from_host(gone, stream, rig.model(checkpoint), checkpoint.source())) == told);
  CHECK(why(rig.runtime.init_from_device(gone, Node::outputs, live, stream)) == told);
  CHECK(why(rig.runtime.init_from_device(live, Node::outputs, gone, stream)) == told);
  CHECK(why(rig.runtime.device_to_device(Node::outputs, MergeUse::none, gone, live)) == told);
  CHECK(why(rig.runtime.device_to_device(Node::outputs, MergeUse::none, live, gone)) == told);
  CHECK(rig.runtime.describe(gone)["finalized"] == true);
  CHECK(get(rig.runtime.get_used_memory(rig.device())) == 8);
}

TEST_CASE("finalize waits for the work of its stream, and for nobody else's", "[threads]") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const Stream own = rig.stream();
  const Stream busy = rig.stream();
  Gate gate;
  ok(rig.runtime.schedule_task(busy, [&] {
    gate.pass();
    return Status();
  }));
  const Context context = get(rig.runtime.make_context(rig.device(), own));
  ok(rig.runtime.need(context, Node::inputs, 64, MemoryMode::device));
  std::vector<std::uint8_t> data(64, 7);
  const std::array<HostRead, 1> pieces{HostRead{0, data.data(), 64}};
  for (int i = 0; i < 30; ++i) {
    CHECK(get(rig.runtime.from_host(context, Node::inputs, pieces)));
  }
  ok(rig.runtime.finalize(context));  // the ledger sees a copy that comes too late
  CHECK_FALSE(get(rig.runtime.is_idle(busy)));
  gate.open();
  ok(rig.runtime.await(busy));
}

TEST_CASE("finalize waits for those that read from the context", "[threads]") {
  const MergeUse use = GENERATE(MergeUse::none, MergeUse::copy);
  Rig rig(fake(2, true));
  const Stream a = rig.stream(0);
  const Stream b = rig.stream(1);
  Gate gate;
  const Context src = get(rig.runtime.make_context(rig.device(0), a));
  const Context dst = get(rig.runtime.make_context(rig.device(1), b));
  ok(rig.runtime.need(src, Node::outputs, 64, MemoryMode::device));
  ok(rig.runtime.need(dst, Node::outputs, 64, MemoryMode::device));
  ok(rig.runtime.schedule_task(b, [&] {
    gate.pass();
    return Status();
  }));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, use, dst, src)));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  ok(rig.runtime.finalize(src));
  opener.join();
  ok(rig.runtime.await(b));
}

}  // namespace kime::test
