// Pools and buffers.
#include <cstring>
#include <numeric>

#include "tests/runtime/rig.h"

namespace kime::test {

namespace {

constexpr MemoryMode kMode = MemoryMode::device;

std::vector<std::uint8_t> read(Rig& rig, const Stream& stream, const Buffer& buffer, std::size_t bytes) {
  std::vector<std::uint8_t> out(bytes);
  ok(rig.runtime.buffer_to_host(stream, buffer, out.data(), bytes));
  ok(rig.runtime.await(stream));
  return out;
}

}  // namespace

TEST_CASE("pools are allocated and freed by number, and what is used is known") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const Device device = rig.device();
  ok(rig.runtime.alloc_pool(device, 7, 1000, 64, kMode));
  ok(rig.runtime.alloc_pool(device, 9, 24, 8, kMode));
  CHECK(get(rig.runtime.get_used_memory(device)) == 1024);
  CHECK(get(rig.runtime.get_used_memory(rig.device(1))) == 0);
  CHECK(rig.ledger().live(0) == 1024);
  CHECK(why(rig.runtime.alloc_pool(device, 7, 8, 8, kMode)) == "device: pool 7 is in use");
  ok(rig.runtime.alloc_pool(rig.device(1), 7, 8, 8, kMode));  // another device's
  ok(rig.runtime.free_pool(device, 7));
  CHECK(get(rig.runtime.get_used_memory(device)) == 24);
  CHECK(rig.ledger().live(0) == 24);
  CHECK(why(rig.runtime.free_pool(device, 7)) == "device: pool 7 is not in use: never allocated, or freed already");
  CHECK(why(rig.runtime.free_pool(device, 8)) == "device: pool 8 is not in use: never allocated, or freed already");
  ok(rig.runtime.alloc_pool(device, 7, 16, 8, kMode));
  CHECK(get(rig.runtime.get_used_memory(device)) == 40);
}

TEST_CASE("alignments are powers of two") {
  Rig rig(fake(1, false));
  for (const std::size_t bad : {0U, 3U, 48U}) {
    CHECK(why(rig.runtime.alloc_pool(rig.device(), 1, 8, bad, kMode)) ==
          "device: an alignment of " + std::to_string(bad) + " bytes is no power of two");
  }
  ok(rig.runtime.alloc_pool(rig.device(), 1, 8, 4096, kMode));
}

TEST_CASE("modes are passed on") {
  Rig rig(fake(1, false));
  ok(rig.runtime.alloc_pool(rig.device(), 1, 8, 8, MemoryMode::managed));
  static_cast<void>(get(rig.runtime.alloc_buffer(rig.device(), 8, MemoryMode::pinned_host)));
  CHECK(rig.ledger().allocs_by_mode[static_cast<std::size_t>(MemoryMode::managed)] == 1);
  CHECK(rig.ledger().allocs_by_mode[static_cast<std::size_t>(MemoryMode::pinned_host)] == 1);
  CHECK(rig.ledger().allocs_by_mode[static_cast<std::size_t>(MemoryMode::device)] == 0);
}

TEST_CASE("no more memory than there is") {
  auto config = fake(1, false);
  config.devices[0].memory_bytes = 1000;
  Rig rig(config);
  ok(rig.runtime.alloc_pool(rig.device(), 1, 600, 8, kMode));
  CHECK_THAT(why(rig.runtime.alloc_pool(rig.device(), 2, 401, 8, kMode)), Contains("device: out of memory: 401 bytes, 600 of 1000"));
  CHECK(why(rig.runtime.free_pool(rig.device(), 2)) == "device: pool 2 is not in use: never allocated, or freed already");
  ok(rig.runtime.alloc_pool(rig.device(), 2, 400, 8, kMode));
  // Growing frees the old slab first: there is room for one only.
  const Buffer old = [&] {
    ok(rig.runtime.free_pool(rig.device(), 2));
    return get(rig.runtime.alloc_buffer(rig.device(), 300, kMode));
  }();
  CHECK(get(rig.runtime.alloc_buffer(rig.device(), 400, kMode, old)).bytes == 400);
}

TEST_CASE("memset_zero keeps to the order of its stream, and to the pool") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(1, async));
  const Stream stream = rig.stream();
  ok(rig.runtime.alloc_pool(rig.device(), 1, 64, 64, kMode));
  const Buffer all{0, 1, 0, 64};
  std::vector<std::uint8_t> ones(64, 1);
  std::vector<std::uint8_t> before(64);
  ok(rig.runtime.host_to_buffer(stream, ones.data(), all, 64));
  ok(rig.runtime.buffer_to_host(stream, all, before.data(), 64));
  ok(rig.runtime.memset_zero(stream, 1, 8, 16));
  auto expected = ones;
  std::fill_n(expected.begin() + 8, 16, std::uint8_t{0});
  CHECK(read(rig, stream, all, 64) == expected);
  CHECK(before == ones);
  ok(rig.runtime.memset_zero(stream, 1, 64, 0));
  CHECK(why(rig.runtime.memset_zero(stream, 1, 60, 5)) == "device: 5 bytes at 60 are past pool 1 of 64 bytes");
  CHECK(why(rig.runtime.memset_zero(stream, 1, 65, 0)) == "device: 0 bytes at 65 are past pool 1 of 64 bytes");
  CHECK_THAT(why(rig.runtime.memset_zero(stream, 1, 1, SIZE_MAX)), Contains("are past pool 1 of 64 bytes"));
  CHECK(why(rig.runtime.memset_zero(stream, 2, 0, 1)) == "device: pool 2 is not in use");
  CHECK(read(rig, stream, all, 64) == expected);
}

TEST_CASE("a buffer is kept where it is large enough, else replaced") {
  Rig rig(fake(2, false));
  const Device device = rig.device();
  const bool with_stream = GENERATE(false, true);
  const std::optional<Stream> stream = with_stream ? std::optional(rig.stream()) : std::nullopt;
  const Buffer first = get(rig.runtime.alloc_buffer(device, 100, kMode, {}, stream));
  CHECK(first.bytes == 100);
  CHECK(first.pool >= kFirstOwnPool);
  CHECK(get(rig.runtime.alloc_buffer(device, 100, kMode, first, stream)) == first);
  CHECK(get(rig.runtime.alloc_buffer(device, 20, kMode, first, stream)) == first);
  const Buffer larger = get(rig.runtime.alloc_buffer(device, 101, kMode, first, stream));
  CHECK(larger.bytes == 101);
  CHECK_FALSE(larger.pool == first.pool);
  CHECK(get(rig.runtime.get_used_memory(device)) == 101);
  CHECK_THAT(why(rig.runtime.alloc_buffer(device, 200, kMode, first, stream)), Contains("is not in use"));
  CHECK_THAT(why(rig.runtime.alloc_buffer(device, 10, kMode, first, stream)), Contains("is not in use"));
  CHECK(why(rig.runtime.alloc_buffer(rig.device(1), 10, kMode, larger)) == "device: the old buffer is another device's");
}

TEST_CASE("the numbers of own pools are the same in each run: of a device and of each of its streams") {
  const auto numbers = [] {
    Rig rig(fake(1, false));
    const Stream a = rig.stream();
    const Stream b = rig.stream();
    std::vector<PoolId> pools;
    for (const auto& stream : {std::optional<Stream>(), std::optional(a), std::optional(b), std::optional(a)}) {
      pools.push_back(get(rig.runtime.alloc_buffer(rig.device(), 8, kMode, {}, stream)).pool);
    }
    return pools;
  };
  const auto first = numbers();
  CHECK(first == numbers());
  CHECK(first == std::vector<PoolId>{kFirstOwnPool, 2 * kFirstOwnPool, 3 * kFirstOwnPool, 2 * kFirstOwnPool + 1});
}

TEST_CASE("memory goes only after the work that uses it, on the device too", "[threads]") {
  const bool grow = GENERATE(false, true);
  Rig rig(fake(1, true));  // the ledger sees what uses it too late
  const Stream stream = rig.stream();
  std::vector<std::uint8_t> data(64, 5);
  for (int i = 0; i < 50; ++i) {
    const Buffer buffer = get(rig.runtime.alloc_buffer(rig.device(), 64, kMode));
    for (int k = 0; k < 20; ++k) {
      ok(rig.runtime.host_to_buffer(stream, data.data(), buffer, 64));
    }
    if (grow) {
      ok(rig.runtime.free_pool(rig.device(), get(rig.runtime.alloc_buffer(rig.device(), 65, kMode, buffer)).pool));
    } else {
      ok(rig.runtime.free_pool(rig.device(), buffer.pool));
    }
  }
}

TEST_CASE("host_to_buffer and buffer_to_host in bounds, on devices that reach the buffer") {
  const bool async = GENERATE(false, true);
  auto config = fake(3, async);
  config.devices[1].space = config.devices[0].space;
  Rig rig(config);
  const Stream stream = rig.stream(0);
  ok(rig.runtime.alloc_pool(rig.device(), 1, 64, 8, kMode));
  const Buffer tail{0, 1, 60, 4};
  std::uint32_t word = 0x01020304;
  ok(rig.runtime.host_to_buffer(stream, &word, tail, 4));
  std::uint32_t back = 0;
  ok(rig.runtime.buffer_to_host(stream, tail, &back, 4));
  ok(rig.runtime.await(stream));
  CHECK(back == word);
  CHECK(why(rig.runtime.host_to_buffer(stream, &word, tail, 5)) == "device: 5 bytes at 60 are past pool 1 of 64 bytes");
  CHECK(why(rig.runtime.buffer_to_host(stream, tail, &back, 5)) == "device: 5 bytes at 60 are past pool 1 of 64 bytes");
  const Stream near = rig.stream(1);
  ok(rig.runtime.buffer_to_host(near, tail, &back, 4));
  ok(rig.runtime.await(near));
  const Stream far = rig.stream(2);
  CHECK(why(rig.runtime.host_to_buffer(far, &word, tail, 4)) == "device: fake:2 cannot use a buffer of fake:0");
  CHECK(why(rig.runtime.buffer_to_host(far, tail, &back, 4)) == "device: fake:2 cannot use a buffer of fake:0");
}

TEST_CASE("where a call hangs, the slab that it has stays where it is") {
  const auto ledger = std::make_shared<FakeLedger>();
  {
    PoolTable<FakeDriver> pools;
    for (PoolId id = 0; id < 3; ++id) {
      ok(pools.add(id, FakeSlab(std::make_shared<FakeBlock>(0, 16, 16, ledger)), 16));
    }
    const auto place = get(pools.place(Buffer{0, 1, 4, 8}, 0, 8));
    const FakeBlock* block = place.slab->block().get();
    pools.set_aside();
    ok(pools.remove(1));
    CHECK(place.slab->block().get() == block);
    CHECK(place.slab->block()->at(place.offset, 8) != nullptr);
    CHECK(pools.used() == 48);
    CHECK_FALSE(pools.has(1));
    CHECK(why(pools.add(2, FakeSlab(std::make_shared<FakeBlock>(0, 16, 16, ledger)), 16)) == "device: pool 2 is in use");
  }
  CHECK(ledger->wait_empty());
  CHECK(ledger->violations().empty());
}

}  // namespace kime::test
