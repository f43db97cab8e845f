// A record's scores are the same bits whatever the company, the bucket, the threads and the instruction set.
#include <catch2/catch.hpp>
#include <thread>

#include "kernels/cpu/fp_scope.h"
#include "tests/backend/runs.h"

namespace kime::test {
namespace {

struct Record {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> markers;
  std::uint8_t type = 0;
};

std::vector<Record> records(Random& random, const ModelConfig& config, std::size_t count, std::size_t longest) {
  BatchBuffer buffer;
  for (std::size_t i = 0; i < count; ++i) {
    push_record(buffer, random, config, longest);
  }
  const Batch batch = buffer.batch();
  std::vector<Record> records;
  for (std::size_t s = 0; s < count; ++s) {
    const auto ids = batch.ids.subspan(batch.cu[s], batch.cu[s + 1] - batch.cu[s]);
    const auto markers = batch.markers.subspan(batch.mcu[s], batch.mcu[s + 1] - batch.mcu[s]);
    records.push_back({{ids.begin(), ids.end()}, {markers.begin(), markers.end()}, batch.qtype[s]});
  }
  return records;
}

BatchBuffer batch_of(std::span<const Record> records) {
  BatchBuffer buffer;
  for (const Record& record : records) {
    REQUIRE(buffer.push(record.ids, record.markers, record.type));
  }
  return buffer;
}

// All of a run's numbers, record by record.
std::vector<std::vector<float>> by_record(const Batch& batch, const Outputs& outputs) {
  std::vector<std::vector<float>> rows;
  for (std::size_t s = 0; s < batch.seqs(); ++s) {
    auto& row = rows.emplace_back(outputs.act.at(s).begin(), outputs.act.at(s).end());
    for (std::size_t m = batch.mcu[s]; m < batch.mcu[s + 1]; ++m) {
      row.push_back(outputs.logits.at(m));
    }
  }
  return rows;
}

std::vector<std::vector<float>> run(const Loaded& loaded, std::span<const Record> records) {
  const BatchBuffer buffer = batch_of(records);
  return by_record(buffer.batch(), loaded.run(buffer.batch()));
}

std::string first_difference_of_records(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size()) {
      return "records are missing";
    }
    if (const std::string difference = test::first_difference(a[i], b[i]); !difference.empty()) {
      return "record " + std::to_string(i) + ": " + difference;
    }
  }
  return "";
}

// Wide enough for ops to be shared among threads.
ModelConfig wide_config() {
  ModelConfig config{.vocab = 90, .hidden = 128, .intermediate = 200, .heads = 2, .layers = {{true}, {false}, {false}}};
  config.window = 30;
  config.head_layers = 2;
  return config;
}

TEST_CASE("alone, in any order, in any bucket: the same bits") {
  const auto precision = GENERATE(Precision::f32, Precision::bf16, Precision::int8);
  CAPTURE(name_of(precision));
  for (std::uint64_t seed = 100; seed < 105; ++seed) {
    Random random(seed);
    const ModelConfig config = random_config(random);
    CAPTURE(seed, config.hidden, config.head_layers);
    const RandomWeights weights(config, seed, DType::f16);
    const auto loaded_model = Loaded::load(config, weights, 1, kernels::table(), precision);
    const Loaded& loaded = *loaded_model;
    auto all = records(random, config, 12, 100);
    const auto together = run(loaded, all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(first_difference_of_records(run(loaded, std::span(all).subspan(i, 1)), {together[i]}).empty());
    }
    auto reversed = run(loaded, std::vector(all.rbegin(), all.rend()));
    std::reverse(reversed.begin(), reversed.end());
    CHECK(first_difference_of_records(reversed, together).empty());
    const BatchBuffer buffer = batch_of(all);
    CHECK(first_difference_of_records(by_record(buffer.batch(), loaded.run(buffer.batch(), {5000, 300, 999})), together).empty());
  }
}

TEST_CASE("any number of threads, any instruction set: the same bits") {
  const auto precision = GENERATE(Precision::f32, Precision::bf16, Precision::int8);
  CAPTURE(name_of(precision));
  const ModelConfig config = wide_config();
  const RandomWeights weights(config, 5, DType::bf16);
  Random random(5);
  auto all = records(random, config, 9, 150);
  all.push_back(records(random, config, 1, 1)[0]);
#ifdef KIME_SANITIZED  // without SIMD, a minute and more
  all.back().ids.assign(200, 17);
#else
  all.back().ids.assign(700, 17);
#endif
  const auto want = run(*Loaded::load(config, weights, 1, kernels::table(), precision), all);
  for (const std::size_t threads : {2U, 3U, 7U}) {
    CAPTURE(threads);
    const auto loaded_model = Loaded::load(config, weights, threads, kernels::table(), precision);
    const Loaded& loaded = *loaded_model;
    CHECK(first_difference_of_records(run(loaded, all), want).empty());
    CHECK(first_difference_of_records(run(loaded, std::span(all).last(1)), {want.back()}).empty());
  }
  for (const kernels::Table* table : kernels::tables()) {
    CAPTURE(table->target);
    CHECK(first_difference_of_records(run(*Loaded::load(config, weights, 2, *table, precision), all), want).empty());
  }
}

TEST_CASE("runs that go on at the same time do not touch each other", "[threads]") {
  const auto precision = GENERATE(Precision::f32, Precision::bf16, Precision::int8);
  CAPTURE(name_of(precision));
  const ModelConfig config = wide_config();
  const RandomWeights weights(config, 6, DType::f16);
  Random random(6);
  const auto all = records(random, config, 12, 120);
  const auto loaded_model = Loaded::load(config, weights, 3, kernels::table(), precision);
  const Loaded& loaded = *loaded_model;
  const auto want = run(loaded, all);
  std::vector<std::string> differences(5);  // more callers than threads, too
  {
    std::vector<std::thread> callers;
    for (std::size_t caller = 0; caller < differences.size(); ++caller) {
      callers.emplace_back([&, caller] {
        const std::size_t from = caller;
        const auto mine = std::span(all).subspan(from, 6);
        BatchBuffer buffer;
        for (const Record& record : mine) {
          (void)static_cast<bool>(buffer.push(record.ids, record.markers, record.type));
        }
        for (int round = 0; round < 4 && differences[caller].empty(); ++round) {
          const auto got = by_record(buffer.batch(), loaded.run(buffer.batch()));
          differences[caller] = first_difference_of_records(
              got, {want.begin() + static_cast<std::ptrdiff_t>(from), want.begin() + static_cast<std::ptrdiff_t>(from) + 6});
        }
      });
    }
    for (auto& caller : callers) {
      caller.join();
    }
  }
  for (const std::string& difference : differences) {
    CHECK(difference.empty());
  }
}

TEST_CASE("a plan that is run again forgets the batch before") {
  const auto precision = GENERATE(Precision::f32, Precision::bf16, Precision::int8);
  CAPTURE(name_of(precision));
  const ModelConfig config = wide_config();
  const RandomWeights weights(config, 8);
  Random random(8);
  const auto all = records(random, config, 10, 60);
  const auto loaded_model = Loaded::load(config, weights, 2, kernels::table(), precision);
  const Loaded& loaded = *loaded_model;
  const auto want = run(loaded, all);
  auto small = loaded.plan({700, 10, 60});
  REQUIRE(small);
  auto large = loaded.plan({9000, 10, 60});
  REQUIRE(large);
  Outputs outputs;
  for (const std::size_t count : {10U, 3U, 7U, 10U}) {
    for (const RunnablePlan* plan : {&*small, &*large}) {
      const BatchBuffer buffer = batch_of(std::span(all).first(count));
      REQUIRE(loaded.run(*plan, buffer.batch(), outputs));
      CHECK(
          first_difference_of_records(by_record(buffer.batch(), outputs), {want.begin(), want.begin() + static_cast<std::ptrdiff_t>(count)})
              .empty());
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("the caller's floating-point settings neither matter nor change") {
  const auto precision = GENERATE(Precision::f32, Precision::bf16, Precision::int8);
  CAPTURE(name_of(precision));
  const ModelConfig config = wide_config();
  const RandomWeights weights(config, 9);
  Random random(9);
  const auto all = records(random, config, 4, 90);
  const auto want = run(*Loaded::load(config, weights, 2, kernels::table(), precision), all);
  const std::uint32_t before = _mm_getcsr();
  constexpr std::uint32_t kOdd = 0x1F80U | 0x8000U | 0x40U | 0x6000U;  // flush to zero, denormals are zero, round towards zero
  _mm_setcsr(kOdd);
  const auto loaded_model = Loaded::load(config, weights, 2, kernels::table(), precision);
  const Loaded& loaded = *loaded_model;
  const auto got = run(loaded, all);
  const std::uint32_t after = _mm_getcsr();
  _mm_setcsr(before);
  CHECK((after & ~0x3FU) == kOdd);  // the low six bits are the exceptions that occurred
  CHECK(first_difference_of_records(got, want).empty());
}
#endif

}  // namespace
}  // namespace kime::test
