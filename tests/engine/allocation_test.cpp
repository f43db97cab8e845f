// A warmed run allocates nothing, on any thread.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "kime/engine/executor.h"
#include "kime/graph/builder.h"
#include "tests/engine/counting.h"
#include "tests/engine/cpu_stream.h"
#include "tests/support/random_model.h"

namespace kime::test {
namespace {

// Keeps the compiler from leaving out an allocation that nothing uses.
void use(void* block) {
  asm volatile("" : : "g"(block) : "memory");
}

std::size_t counted(void (*allocate)()) {
  const std::size_t before = allocations();
  allocate();
  return allocations() - before;
}

TEST_CASE("every way to ask for memory is counted") {
  if (!counts_allocations()) {
    WARN("skipped: a sanitizer has its own allocator");
    return;
  }
  CHECK(counted([] {
          auto* block = new char;
          use(block);
          delete block;
        }) == 1);
  struct alignas(128) Wide {
    char bytes[128];
  };
  CHECK(counted([] {
          auto* block = new Wide;
          use(block);
          delete block;
        }) == 1);
  CHECK(counted([] {
          void* block = std::malloc(10);
          use(block);
          std::free(block);
        }) == 1);
  CHECK(counted([] {
          void* block = std::aligned_alloc(64, 64);
          use(block);
          std::free(block);
        }) == 1);
  CHECK(counted([] {
          void* block = nullptr;
          REQUIRE(posix_memalign(&block, 64, 64) == 0);
          use(block);
          std::free(block);
        }) >= 1);
  CHECK(counted([] {
          void* block = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          use(block);
          munmap(block, 4096);
        }) == 1);
  const std::size_t before = allocations();
  std::thread([] { std::free(std::malloc(1000)); }).join();
  CHECK(allocations() > before + 1);  // the thread's own, and what it asked for
}

TEST_CASE("a warmed run allocates nothing on any thread") {
  if (!counts_allocations()) {
    WARN("skipped: a sanitizer has its own allocator");
    return;
  }
  ModelConfig config{.vocab = 60, .hidden = 128, .intermediate = 100, .heads = 2, .layers = {{true}, {false}}};
  config.head_layers = 2;
  const RandomWeights weights(config, 1, DType::f16);
  Random random(1);
  BatchBuffer large;
  BatchBuffer small;
  for (int i = 0; i < 12; ++i) {
    push_record(large, random, config, 150);
  }
  push_record(small, random, config, 20);
  const Bucket buckets[] = {{32, 8, 32}, {2048, 512, 2048}};
  const auto precision = GENERATE(Precision::f32, Precision::bf16, Precision::int8);
  CAPTURE(name_of(precision));
  for (const std::size_t threads : {1U, 3U}) {
    CpuStream cpu(threads);
    auto program = cpu.program(weights.source(), config, precision);
    REQUIRE(program);
    auto executor = Executor<CpuStream::Backend>::make(*program, "compat", buckets);
    REQUIRE(executor);
    Outputs outputs;
    REQUIRE(executor->run(large.batch(), outputs));
    REQUIRE(executor->run(small.batch(), outputs));
    bool ran = true;
    const std::size_t before = allocations();
    for (int i = 0; i < 5; ++i) {
      ran = static_cast<bool>(executor->run(large.batch(), outputs)) && ran;
      ran = static_cast<bool>(executor->run(small.batch(), outputs)) && ran;
    }
    const std::size_t after = allocations();
    CHECK(ran);
    CHECK(after == before);
  }
}

}  // namespace
}  // namespace kime::test
