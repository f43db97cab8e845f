// Devices and streams: enumeration, names and numbers, configurations.
#include "tests/runtime/rig.h"

namespace kime::test {

TEST_CASE("no driver is touched before it is asked for devices") {
  Rig rig(fake(3, false));
  CHECK(rig.runtime.is_initialized());
  CHECK(Rig::Runtime::name() == "fake");
  const auto info = rig.runtime.get_global_debug_info();
  CHECK(rig.ledger().opens == 0);
  CHECK(get(rig.runtime.num_devices()) == 3);
  CHECK(get(rig.runtime.num_devices()) == 3);
  static_cast<void>(rig.device(1));
  CHECK(rig.ledger().opens == 1);
  CHECK(rig.ledger().streams == 0);
}

TEST_CASE("a driver that does not open says why, each time") {
  auto config = fake(1, false);
  config.no_open = "no driver here";
  Rig rig(config);
  CHECK(why(rig.runtime.num_devices()) == "device: no driver here");
  CHECK(why(rig.runtime.get_device(0)) == "device: no driver here");
  CHECK(why(rig.runtime.static_properties()) == "device: no driver here");
  CHECK(why(rig.runtime.hardware_limits()) == "device: no driver here");
}

TEST_CASE("a second initialize must bring the same configuration") {
  Rig rig(fake(2, false));
  ok(rig.runtime.initialize(rig.config()));
  auto other = rig.config();
  SECTION("another driver configuration") {
    other.driver.devices.pop_back();
  }
  SECTION("other streams") {
    other.streams = {StreamStrategy::Kind::number, 3};
  }
  CHECK(why(rig.runtime.initialize(other)) == "device: the fake runtime is initialized with another configuration");
  CHECK(get(rig.runtime.num_devices()) == 2);
  rig.runtime.unsafe_cleanup();
  CHECK_FALSE(rig.runtime.is_initialized());
  ok(rig.runtime.initialize(other));
}

TEST_CASE("no streams, or too many, are no configuration") {
  Multidev<FakeDriver> runtime;
  CHECK(why(runtime.initialize({fake(1, false), {StreamStrategy::Kind::number, 0}})) == "device: 0 streams: a device has 1 to 4096");
  CHECK(why(runtime.initialize({fake(1, false), {StreamStrategy::Kind::number, 4097}})) == "device: 4097 streams: a device has 1 to 4096");
  CHECK_FALSE(runtime.is_initialized());
}

TEST_CASE("a runtime that is not initialized says so") {
  Multidev<FakeDriver> runtime;
  CHECK(why(runtime.num_devices()) == "device: the fake runtime is not initialized");
  CHECK(why(runtime.get_device(0)) == "device: the fake runtime is not initialized");
  CHECK(why(runtime.get_name(Device{})) == "device: the fake runtime is not initialized");
  CHECK(why(runtime.hardware_limits()) == "device: the fake runtime is not initialized");
}

TEST_CASE("ordinals are those of the driver, and only those") {
  Rig rig(fake(2, false));
  CHECK(get(rig.runtime.to_ordinal(rig.device(1))) == 1);
  CHECK(get(rig.runtime.get_name(rig.device(1))) == "fake:1");
  CHECK(why(rig.runtime.get_device(2)) == "device: there is no fake:2; there are 2 devices");
  CHECK(why(rig.runtime.new_virtual_device(Device{rig.device(0).life, 7})) == "device: there is no fake:7; there are 2 devices");
  Rig one(fake(1, false));
  CHECK(why(one.runtime.get_device(1)) == "device: there is no fake:1; there is 1 device");
  CHECK(rig.runtime.calls().of("make_device") == 2);  // each once
}

TEST_CASE("streams are numbered on each device") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const Stream a = rig.stream(0);
  const Stream b = rig.stream(1);
  const Stream c = rig.stream(1);
  CHECK(get(rig.runtime.to_subordinal(a)) == 0);
  CHECK(get(rig.runtime.to_subordinal(b)) == 0);
  CHECK(get(rig.runtime.to_subordinal(c)) == 1);
  CHECK(get(rig.runtime.get_name(c)) == "fake:1.1");
  CHECK(get(rig.runtime.to_ordinal(get(rig.runtime.get_physical_device(c)))) == 1);
  CHECK(why(rig.runtime.get_name(Stream{a.life, 0, 1})) == "device: there is no stream 1 of fake:0");
  CHECK(rig.ledger().streams == 3);
  rig.runtime.unsafe_cleanup();
  CHECK(rig.ledger().streams == 0);
}

TEST_CASE("a stream that the driver refuses is an error, not a stream") {
  Rig rig(fake(1, false));
  FakeFaults::Plan plan;
  plan.no_streams = true;
  rig.faults().plan(0, plan);
  CHECK(why(rig.runtime.new_virtual_device(rig.device())) == "device: fake:0 gives no stream");
  rig.faults().plan(0, {});
  CHECK(get(rig.runtime.to_subordinal(rig.stream())) == 0);
}

TEST_CASE("streams are suggested by strategy") {
  using Kind = StreamStrategy::Kind;
  const auto suggested = [](StreamStrategy strategy) {
    auto config = fake(2, false);
    config.devices[1].cores = 12;
    Rig rig(config, strategy);
    return std::pair(get(rig.runtime.suggested_num_virtual_devices(rig.device(0))),
                     get(rig.runtime.suggested_num_virtual_devices(rig.device(1))));
  };
  CHECK(suggested({Kind::one, 0}) == std::pair<std::size_t, std::size_t>(1, 1));
  CHECK(suggested({Kind::overlap, 0}) == std::pair<std::size_t, std::size_t>(2, 2));
  CHECK(suggested({Kind::cores, 0}) == std::pair<std::size_t, std::size_t>(1, 12));
  CHECK(suggested({Kind::number, 5}) == std::pair<std::size_t, std::size_t>(5, 5));
  CHECK(suggested({}) == std::pair<std::size_t, std::size_t>(1, 12));
}

TEST_CASE("the option for streams is read strictly") {
  CHECK(get(parse_streams("one")).kind == StreamStrategy::Kind::one);
  CHECK(get(parse_streams("overlap")).kind == StreamStrategy::Kind::overlap);
  CHECK(get(parse_streams("cores")).kind == StreamStrategy::Kind::cores);
  CHECK(get(parse_streams("17")) == StreamStrategy{StreamStrategy::Kind::number, 17});
  for (const char* bad : {"", "auto", "3x", "-1", "1.5", " 2", "99999999999999999999"}) {
    CHECK_THAT(why(parse_streams(bad)), Contains("--streams '" + std::string(bad) + "'"));
  }
  for (const char* bad : {"0", "4097"}) {
    CHECK_THAT(why(parse_streams(bad)), Contains("--streams " + std::string(bad) + ": a device has 1 to 4096 streams"));
  }
}

TEST_CASE("handles of one runtime mean nothing to another") {
  Rig rig(fake(1, false));
  Rig other(fake(1, false));
  const Stream stream = other.stream();
  CHECK(why(rig.runtime.get_name(other.device())) == "device: a device of another runtime");
  CHECK(why(rig.runtime.get_name(stream)) == "device: a stream of another runtime");
  CHECK(why(rig.runtime.new_virtual_device(other.device())) == "device: a device of another runtime");
  CHECK(why(rig.runtime.make_context(rig.device(), stream)) == "device: a stream of another runtime");
  CHECK(why(rig.runtime.schedule_task(Stream{}, [] { return Status(); })) == "device: a stream of another runtime");
}

}  // namespace kime::test
