// Code and routines.
#include "tests/runtime/rig.h"

namespace kime::test {

namespace {

constexpr Bucket kSmall{32, 8, 32};
constexpr Bucket kLarge{256, 64, 256};

MergeSource merge_of(MergeUse use, std::size_t sources = 2) {
  return {Rig::kBucket, sources, {Node::outputs, use}};
}

}  // namespace

TEST_CASE("a batch is compiled as one by one, under the names given") {
  const bool shared = GENERATE(false, true);
  Rig rig(fake(2, false));
  const FakeCheckpoint checkpoint(4);
  const auto model = rig.model(checkpoint);
  const std::vector<std::string> names{"small", "merge", "large"};
  std::vector<CodeSource<FakeDriver>> sources{GraphSource<FakeDriver>{model, kSmall}, merge_of(MergeUse::copy),
                                              GraphSource<FakeDriver>{model, kLarge}};
  const auto batch = get(rig.runtime.compile_batch(sources, names, {.shared = shared, .occupancy = {}}));
  CHECK(rig.ledger().compiles == (shared ? 2 : 0));  // else postponed
  REQUIRE(batch.size() == 3);
  const Stream stream = rig.stream();
  const Context root = rig.root(checkpoint, stream);
  const auto [last, routines] = get(rig.runtime.link_batch(rig.child(root, stream), batch));
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(batch[i]);
    CHECK(batch[i]->state->name == names[i]);
    const auto one = get(rig.runtime.compile(sources[i], names[i], {.shared = shared, .occupancy = {}}));
    CHECK(rig.runtime.describe(one) == rig.runtime.describe(*batch[i]));
    if (i != 1) {
      const auto routine = get(rig.runtime.link(rig.child(root, stream), one));
      const Work together(8, 3, i == 0 ? kSmall : kLarge);
      const Work alone(8, 3, i == 0 ? kSmall : kLarge);
      ok(together.schedule(rig.runtime, *routines[i]));
      ok(alone.schedule(rig.runtime, routine));
      ok(rig.runtime.await(stream));
      CHECK(together.right(checkpoint.seed()));
      CHECK(together.logits == alone.logits);
    }
  }
}

TEST_CASE("code is made once, for all that link it") {
  Rig rig(fake(2, false));
  const FakeCheckpoint checkpoint(4);
  const auto code = rig.code(checkpoint);
  CHECK(rig.ledger().compiles == 0);
  for (const std::size_t ordinal : {0U, 1U}) {
    const Stream stream = rig.stream(ordinal);
    const auto routine = get(rig.runtime.link(rig.child(rig.root(checkpoint, stream), stream), code));
    const Work work(1);
    ok(work.schedule(rig.runtime, routine));
    ok(rig.runtime.await(stream));
    CHECK(work.right(checkpoint.seed()));
  }
  CHECK(rig.ledger().compiles == 1);
  CHECK(rig.ledger().links == 2);
}

TEST_CASE("occupancy keeps entries, and leaves empty places for others") {
  Rig rig(fake(1, false));
  const FakeCheckpoint checkpoint(4);
  const auto model = rig.model(checkpoint);
  std::vector<std::pair<std::string, std::size_t>> asked;
  const auto batch = get(
      rig.runtime.compile_batch({GraphSource<FakeDriver>{model, kSmall}, merge_of(MergeUse::copy), GraphSource<FakeDriver>{model, kLarge}},
                                {"a", "b", "c"}, {.shared = true, .occupancy = [&](const std::string& name, std::size_t index) {
                                                    asked.emplace_back(name, index);
                                                    return name != "c";
                                                  }}));
  CHECK(asked == std::vector<std::pair<std::string, std::size_t>>{{"a", 0}, {"b", 1}, {"c", 2}});
  CHECK(rig.ledger().compiles == 1);
  REQUIRE(batch.size() == 3);
  CHECK(batch[0]);
  CHECK(batch[1]);
  CHECK_FALSE(batch[2]);
  const auto nodes = get(rig.runtime.expected_merge_nodes(batch));
  REQUIRE(nodes.size() == 3);
  CHECK_FALSE(nodes[0]);
  CHECK(nodes[1] == MergeNode{Node::outputs, MergeUse::copy});
  CHECK_FALSE(nodes[2]);
  const Stream stream = rig.stream();
  const Context root = rig.root(checkpoint, stream);
  const Context prior = rig.child(root, stream);
  const auto [last, routines] = get(rig.runtime.link_batch(prior, batch));
  CHECK(routines[0]);
  CHECK(routines[1]);
  CHECK_FALSE(routines[2]);
  // The context comes after all routines.
  CHECK(last.state == routines[1]->context.state);
  CHECK(get(rig.runtime.parent(last))->state == routines[0]->context.state);
  CHECK(get(rig.runtime.parent(routines[0]->context))->state == prior.state);
  const auto none = get(rig.runtime.link_batch(prior, CodeBatch<FakeDriver>(2)));
  CHECK(none.first.state == prior.state);
}

TEST_CASE("as many names as sources") {
  Rig rig(fake(1, false));
  CHECK(why(rig.runtime.compile_batch({merge_of(MergeUse::copy)}, {"a", "b"})) == "device: 1 sources but 2 names");
}

TEST_CASE("limits are the least of all devices; one without does not lower them; they are looked up once") {
  auto config = fake(3, false);
  config.devices[0].limits = {.bucket_tokens = 100, .threads_per_group = {}, .group_memory_bytes = 7};
  config.devices[2].limits = {.bucket_tokens = 200, .threads_per_group = 64, .group_memory_bytes = 9};
  Rig rig(config);
  CHECK(rig.ledger().opens == 0);
  const auto limits = get(rig.runtime.hardware_limits());
  CHECK(limits == HardwareLimits{.bucket_tokens = 100, .threads_per_group = 64, .group_memory_bytes = 7});
  CHECK(get(rig.runtime.hardware_limits()) == limits);
  const FakeCheckpoint checkpoint(1);
  const auto model = rig.model(checkpoint);
  CHECK(why(rig.runtime.compile(GraphSource<FakeDriver>{model, {101, 8, 8}}, "large")) ==
        "unsupported: a bucket of 101 tokens; the devices run up to 100");
  const auto code = get(rig.runtime.compile(GraphSource<FakeDriver>{model, {100, 8, 8}}, "fits", {.shared = true, .occupancy = {}}));
  CHECK(code.state->compiled->limits == limits);
  CHECK_THAT(why(rig.runtime.compile_batch({GraphSource<FakeDriver>{model, {101, 8, 8}}}, {"large"})), Contains("101 tokens"));
  Rig free(fake(2, false));
  CHECK(get(free.runtime.hardware_limits()) == HardwareLimits());
}

TEST_CASE("link needs a stream, weights of the model's size, and memory") {
  auto config = fake(1, false);
  config.devices[0].memory_bytes = 1000;
  Rig rig(config);
  const FakeCheckpoint checkpoint(1);
  const Stream stream = rig.stream();
  const auto code = rig.code(checkpoint, kSmall);
  const Context bare = get(rig.runtime.make_context(rig.device(), stream));
  CHECK(why(rig.runtime.link(bare, code)) == "device: the context has no weights");
  ok(rig.runtime.need(bare, Node::weights, 63, MemoryMode::device));
  CHECK_THAT(why(rig.runtime.link(bare, code)), Contains("64 bytes at 0 are past pool"));
  const Context root = rig.root(checkpoint, stream);
  CHECK(why(rig.runtime.link(root, code)) == "device: the context has no stream");
  const Context child = rig.child(root, stream);
  CHECK_THAT(why(rig.runtime.link(child, rig.code(checkpoint, kLarge))), Contains("out of memory"));
  ok(rig.runtime.finalize(child));  // what was not linked has left nothing behind
  ok(rig.runtime.finalize(root));
}

TEST_CASE("a batch that cannot be linked leaves no contexts behind") {
  auto config = fake(1, false);
  config.devices[0].memory_bytes = 2000;
  Rig rig(config);
  const FakeCheckpoint checkpoint(1);
  const Stream stream = rig.stream();
  const Context root = rig.root(checkpoint, stream);
  const Context child = rig.child(root, stream);
  const CodeBatch<FakeDriver> batch{rig.code(checkpoint, kSmall), rig.code(checkpoint, kSmall), rig.code(checkpoint, kLarge)};
  CHECK_THAT(why(rig.runtime.link_batch(child, batch)), Contains("out of memory"));
  ok(rig.runtime.finalize(child));
  ok(rig.runtime.finalize(root));
  CHECK(rig.ledger().live(0) == 0);
}

TEST_CASE("what a batch needs from the prior context must be there") {
  Rig rig(fake(1, false));
  const FakeCheckpoint checkpoint(1);
  const Stream stream = rig.stream();
  const Context root = rig.root(checkpoint, stream);
  const Context child = rig.child(root, stream);
  const CodeBatch<FakeDriver> batch{rig.code(checkpoint)};
  constexpr std::array<Node, 2> kNeeds{Node::weights, Node::collected};
  CHECK(why(rig.runtime.link_batch(child, batch, kNeeds)) == "device: the prior context has no collected");
  ok(rig.runtime.need(child, Node::collected, 8, MemoryMode::device));
  CHECK(static_cast<bool>(rig.runtime.link_batch(child, batch, kNeeds)));
}

TEST_CASE("a stream's routines share arena and staging buffers, of the largest") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const FakeCheckpoint checkpoint(1);
  const Stream stream = rig.stream();
  const Context root = rig.root(checkpoint, stream);
  const Context child = rig.child(root, stream);
  const auto small = get(rig.runtime.link(child, rig.code(checkpoint, kSmall)));
  const Work before(5, 3, kSmall);
  ok(before.schedule(rig.runtime, small));  // under way while the buffers are replaced
  const auto large = get(rig.runtime.link(child, rig.code(checkpoint, kLarge)));
  CHECK(get(rig.runtime.get_buffer(child, Node::inputs))->bytes == BatchLayout(kLarge).bytes);
  CHECK(get(rig.runtime.get_buffer(child, Node::outputs))->bytes == ScoreLayout(kLarge).bytes);
  CHECK(get(rig.runtime.get_buffer(small.context, Node::arena)) == get(rig.runtime.get_buffer(large.context, Node::arena)));
  const std::size_t used = get(rig.runtime.get_used_memory(rig.device()));
  CHECK(used == 64 + 64 + kLarge.tokens + BatchLayout(kLarge).bytes + ScoreLayout(kLarge).bytes);
  const Work after(6, 3, kSmall);
  ok(after.schedule(rig.runtime, small));
  ok(rig.runtime.await(stream));
  CHECK(before.right(checkpoint.seed()));
  CHECK(after.right(checkpoint.seed()));
}

TEST_CASE("a launch keeps to its bucket") {
  Rig rig(fake(1, false));
  const FakeCheckpoint checkpoint(1);
  const Stream stream = rig.stream();
  const auto routine = get(rig.runtime.link(rig.child(rig.root(checkpoint, stream), stream), rig.code(checkpoint, kSmall)));
  for (const Extent& counts : {Extent{33, 1, 1}, Extent{1, 9, 1}, Extent{1, 1, 33}}) {
    CHECK(why(rig.runtime.launch(routine, {.counts = counts, .slot = 0})) == "the routine's bucket does not hold the batch");
  }
  CHECK(rig.ledger().runs == 0);
}

TEST_CASE("a routine for a merge takes what was brought to its buffer, for its slot") {
  const MergeUse use = GENERATE(MergeUse::copy, MergeUse::streaming);
  Rig rig(fake(1, false));
  const FakeCheckpoint checkpoint(1);
  const Stream stream = rig.stream();
  const Context root = rig.root(checkpoint, stream);
  const auto scores = get(rig.runtime.link(rig.child(root, stream), rig.code(checkpoint)));
  const Context collecting = get(rig.runtime.make_context(rig.device(), stream));
  const auto merge = get(rig.runtime.link(collecting, get(rig.runtime.compile(merge_of(use, 3), "merge"))));
  CHECK(why(rig.runtime.launch(merge, {.counts = {}, .slot = 0})) == "device: nothing has been brought to the routine's merge buffer");
  const Work work(1);
  ok(work.schedule(rig.runtime, scores));
  CHECK(get(rig.runtime.device_to_device(Node::outputs, use, merge.context, scores.context)));
  CHECK(why(rig.runtime.launch(merge, {.counts = {}, .slot = 3})) == "device: slot 3 of 3 sources");
  ok(rig.runtime.launch(merge, {.counts = {}, .slot = 2}));
  const ScoreLayout layout(Rig::kBucket);
  std::vector<float> collected(work.logits.size());
  const std::array<HostWrite, 1> pieces{HostWrite{2 * layout.bytes + layout.logits, collected.data(), collected.size() * sizeof(float)}};
  CHECK(get(rig.runtime.to_host(collecting, Node::collected, pieces)));
  ok(rig.runtime.sync(get(rig.runtime.all_work(merge.context))));
  CHECK(collected == work.logits);
  CHECK(work.right(checkpoint.seed()));
}

}  // namespace kime::test
