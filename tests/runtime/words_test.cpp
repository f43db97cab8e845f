// Descriptions: what a bug report shows.
#include "tests/runtime/rig.h"

namespace kime::test {

using nlohmann::json;

TEST_CASE("static properties of all devices") {
  auto config = fake(2, true);
  config.devices[1] = {
      .cores = 12, .space = 5, .memory_bytes = 4096, .limits = {}, .bits_class = "other", .per_batch = {}, .per_token = {}};
  Rig rig(config);
  const json all = get(rig.runtime.static_properties());
  REQUIRE(all.size() == 2);
  CHECK(all[1] == json{{"device", "fake:1"},
                       {"kind", "fake"},
                       {"ordinal", 1},
                       {"class", "other"},
                       {"name", "Fake 1"},
                       {"cores", 12},
                       {"numa_node", 5},
                       {"memory_bytes", 4096},
                       {"memory_used_bytes", 0},
                       {"memory_modes", "one kind: all modes are ignored"},
                       {"async", true}});
  CHECK(rig.ledger().streams == 0);
}

TEST_CASE("debug information of the runtime counts its calls") {
  Rig rig(fake(1, false));
  const Stream stream = rig.stream();
  ok(rig.runtime.await(stream));
  const json info = rig.runtime.get_global_debug_info();
  CHECK(info["runtime"] == "fake");
  CHECK(info["initialized"] == true);
  CHECK(info["calls"]["initialize"] == 1);
  CHECK(info["calls"]["new_virtual_device"] == 1);
  CHECK(info["calls"]["await"] == 1);
  CHECK(info["calls"]["finalize"] == 0);
  CHECK(info["calls"].size() == std::size(kCallNames));
  rig.runtime.unsafe_cleanup();
  CHECK(rig.runtime.get_global_debug_info()["initialized"] == false);
}

TEST_CASE("debug information of a device: pools, streams, and what became of it") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const Stream stream = rig.stream();
  ok(rig.runtime.alloc_pool(rig.device(), 1, 100, 8, MemoryMode::device));
  ok(rig.runtime.await(stream));
  json info = get(rig.runtime.get_debug_info(rig.device()));
  CHECK(info["alive"] == true);
  CHECK(info["pools"] == 1);
  CHECK(info["used_bytes"] == 100);
  CHECK(info["runs"] == 0);  // the driver's own
  CHECK(info["lost"].is_null());
  CHECK(info["streams"] == json::array({{{"tasks", 1}, {"idle", true}, {"generation", 1}, {"dead", nullptr}}}));
  ok(rig.runtime.retire(rig.device(), Error(ErrorKind::device, "given up")));
  info = get(rig.runtime.get_debug_info(rig.device()));
  CHECK(info["lost"] == "device: given up");
  CHECK(info["streams"][0]["dead"] == "device: given up");
  CHECK(info["streams"][0]["generation"] == 2);
  CHECK(why(rig.runtime.get_debug_info(Device{rig.device().life, 3})) == "device: there is no fake:3; there is 1 device");
}

TEST_CASE("every handle in words") {
  Rig rig(fake(2, false));
  const FakeCheckpoint checkpoint(1);
  const Stream stream = rig.stream(1);
  CHECK(rig.runtime.describe(rig.device(1)) == json{{"device", "fake:1"}});
  CHECK(rig.runtime.describe(stream) == json{{"stream", "fake:1.0"}});
  CHECK(rig.runtime.describe(get(rig.runtime.all_work(stream))) == json{{"stream", "fake:1.0"}, {"ticket", 1}});
  const Buffer buffer{1, 7, 8, 24};
  CHECK(rig.runtime.describe(buffer) == json{{"device", "fake:1"}, {"pool", 7}, {"offset", 8}, {"bytes", 24}});
  const Context root = rig.root(checkpoint, stream);
  const Context child = rig.child(root, stream);
  const json weights = rig.runtime.describe(*get(rig.runtime.get_buffer(root, Node::weights)));
  CHECK(rig.runtime.describe(root) == json{{"device", "fake:1"}, {"finalized", false}, {"children", 1}, {"nodes", {{"weights", weights}}}});
  CHECK(rig.runtime.describe(child) ==
        json{{"device", "fake:1"}, {"stream", "fake:1.0"}, {"finalized", false}, {"children", 0}, {"nodes", json::object()}});
  const auto code = rig.code(checkpoint);
  const json code_words{{"code", "code"}, {"tokens", 64}, {"seqs", 8}, {"markers", 32}};
  CHECK(rig.runtime.describe(code) == code_words);
  const auto routine = get(rig.runtime.link(child, code));
  json routine_words = code_words;
  routine_words["context"] = rig.runtime.describe(routine.context);
  CHECK(rig.runtime.describe(routine) == routine_words);
  const auto merge = get(rig.runtime.compile(MergeSource{Rig::kBucket, 2, {Node::outputs, MergeUse::streaming}}, "merge"));
  const json merge_words{{"node", "outputs"}, {"use", "streaming"}};
  CHECK(rig.runtime.describe(merge)["merge"] == merge_words);
  CHECK(rig.runtime.describe(get(rig.runtime.link(child, merge)).context)["merge"] == merge_words);
}

}  // namespace kime::test
