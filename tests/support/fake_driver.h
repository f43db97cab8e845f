// Devices that are none: scores are hashes, memory is the host's, work is done at once or, as on a GPU, later; and they fail when told to.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "kime/runtime/driver.h"
#include "kime/runtime/io_layout.h"
#include "tests/support/fake_faults.h"
#include "tests/support/fake_memory.h"
#include "tests/support/fake_stream.h"

namespace kime::test {

struct FakeScores {
  std::vector<float> logits;
  std::array<float, 2> act{};
};

/// A checkpoint as the fake sees it: a number drawn from its bytes. Errors: those of reading.
inline Result<std::uint64_t> fake_seed(const TensorSource& tensors) {
  std::uint64_t seed = 0x6B696D65;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::size_t size = size_of(tensors.dtype(i));
    for (const std::size_t n : tensors.shape(i)) {
      size *= n;
    }
    bytes.resize(size);
    if (auto read = tensors.read(i, 0, bytes); !read) {
      return std::move(read).error();
    }
    for (const std::byte byte : bytes) {
      seed = mix(seed, static_cast<std::uint64_t>(byte));
    }
    seed = mix(seed, size);
  }
  return seed;
}

/// The weights of that number, as a device that computes in `precision` has them.
inline std::uint64_t fake_seed_in(Precision precision, std::uint64_t seed) {
  return precision == Precision::f32 ? seed : mix(seed, static_cast<std::uint64_t>(precision));
}

/// What the fake takes a graph's precision to be: that of its first product.
inline Precision fake_precision(const Graph& graph) {
  for (const Op& op : graph.ops) {
    if (const auto* gemm = std::get_if<Gemm>(&op)) {
      return gemm->precision;
    }
  }
  return Precision::f32;
}

/// What a fake device gives for one sequence: alone, or in any batch. Multiples of 2^-20 in [-8, 8).
inline FakeScores expected_fake_scores(std::uint64_t seed, std::span<const std::uint32_t> ids, std::span<const std::uint32_t> markers,
                                       std::uint8_t qtype) {
  std::uint64_t hash = mix(seed, qtype);
  for (const std::uint32_t id : ids) {
    hash = mix(hash, id);
  }
  const auto number = [](std::uint64_t word) { return static_cast<float>(word >> 40) * 0x1p-20F - 8.0F; };
  FakeScores scores;
  for (const std::uint32_t marker : markers) {
    scores.logits.push_back(number(mix(mix(hash, 1), marker)));
  }
  scores.act = {number(mix(hash, 2)), number(mix(hash, 3))};
  return scores;
}

/// Whether a score is no finite number in f16: by some checkpoints, of sequences with a token id from `from` on.
inline bool fake_overflows(std::uint32_t from, std::uint64_t seed, std::span<const std::uint32_t> ids) {
  return std::ranges::any_of(ids, [&](std::uint32_t id) { return id >= from && mix(seed, id) % 2 == 0; });
}

/// Puts it there: a logit or one of act.
inline void fake_overflow(std::uint32_t from, std::uint64_t seed, std::span<const std::uint32_t> ids, FakeScores& scores) {
  if (!fake_overflows(from, seed, ids)) {
    return;
  }
  if (ids.size() % 2 == 0 && !scores.logits.empty()) {
    scores.logits.back() = std::numeric_limits<float>::infinity();
  } else {
    scores.act[1] = std::numeric_limits<float>::quiet_NaN();
  }
}

struct FakeDevice {
  std::size_t cores = 1;
  std::size_t space = 0;                            ///< Devices of one space share memory.
  std::size_t memory_bytes = std::size_t{1} << 30;  ///< More cannot be allocated.
  HardwareLimits limits;
  std::string bits_class = "fake";
  std::chrono::microseconds per_batch{0};  ///< Real time that a run takes; per_token in addition.
  std::chrono::nanoseconds per_token{0};
  bool operator==(const FakeDevice&) const = default;
};

/// Satisfies Driver.
class FakeDriver {
 public:
  static constexpr std::string_view kName = "fake";

  struct Config {
    std::vector<FakeDevice> devices{1};
    bool async = false;   ///< Each stream has a thread that does the work after the calls have returned.
    std::string no_open;  ///< An error that open() fails with.
    bool padded_products = false;
    std::size_t weight_bytes = 64;                     ///< Of a checkpoint.
    std::uint32_t overflows_from = ~std::uint32_t{0};  ///< Token ids from here on may, in f16.
    std::shared_ptr<FakeFaults> faults = std::make_shared<FakeFaults>();
    std::shared_ptr<FakeLedger> ledger = std::make_shared<FakeLedger>();
    bool operator==(const Config&) const = default;
  };
  using Slab = FakeSlab;
  using Stream = FakeStream;
  struct Layout {
    std::size_t size = 64;
    [[nodiscard]] std::size_t bytes() const { return size; }
  };
  struct Code {
    Bucket bucket;
    HardwareLimits limits;
    Precision precision = Precision::f32;
  };
  struct Routine {
    Bucket bucket;
    Precision precision = Precision::f32;
  };

  static Result<std::unique_ptr<FakeDriver>> open(const Config& config) {
    ++config.ledger->opens;
    if (!config.no_open.empty()) {
      return Error(ErrorKind::device, config.no_open);
    }
    return std::make_unique<FakeDriver>(config);
  }
  explicit FakeDriver(const Config& config) : config_(std::make_shared<const Config>(config)) {
    for (std::size_t i = 0; i < config_->devices.size(); ++i) {
      devices_.push_back(std::make_shared<FakeDeviceState>());
      devices_.back()->ordinal = i;
    }
  }

  [[nodiscard]] std::size_t num_devices() const { return devices_.size(); }
  [[nodiscard]] DeviceProperties properties(std::size_t ordinal) const {
    const FakeDevice& device = config_->devices[ordinal];
    DeviceProperties known;
    known.kind = kName;
    known.bits_class = device.bits_class;
    known.name = "Fake " + std::to_string(ordinal);
    known.cores = device.cores;
    known.speed_hint = static_cast<double>(device.cores);
    known.node = static_cast<int>(device.space);
    known.memory_bytes = device.memory_bytes;
    known.memory_modes = "one kind: all modes are ignored";
    known.facts = {{"async", config_->async}};
    return known;
  }
  [[nodiscard]] HardwareLimits limits(std::size_t ordinal) const { return config_->devices[ordinal].limits; }
  [[nodiscard]] Caps caps(std::size_t ordinal) const {
    return {.name = kName,
            .threads = config_->devices[ordinal].cores,
            .graphs = false,
            .unified_memory = false,
            .padded_products = config_->padded_products};
  }
  [[nodiscard]] std::size_t suggested_streams(std::size_t ordinal, StreamStrategy strategy) const {
    return strategy.streams(config_->devices[ordinal].cores, config_->async ? StreamStrategy::Kind::overlap : StreamStrategy::Kind::cores);
  }
  [[nodiscard]] bool shares_memory(std::size_t a, std::size_t b) const { return config_->devices[a].space == config_->devices[b].space; }
  [[nodiscard]] bool alive(std::size_t ordinal) const { return !devices_[ordinal]->lost; }
  [[nodiscard]] nlohmann::json debug_info(std::size_t ordinal) const { return {{"runs", devices_[ordinal]->runs.load()}}; }

  Result<FakeSlab> alloc(std::size_t ordinal, std::size_t bytes, std::size_t alignment, MemoryMode mode) {
    FakeDeviceState& device = *devices_[ordinal];
    if (device.lost) {
      return device.lost_error();
    }
    const std::size_t capacity = config_->devices[ordinal].memory_bytes;
    const std::size_t live = config_->ledger->live(ordinal);
    if (bytes > capacity - std::min(capacity, live) || config_->faults->out_of_memory(ordinal, ++device.allocs)) {
      return Error(ErrorKind::device, "out of memory: " + std::to_string(bytes) + " bytes, " + std::to_string(live) + " of " +
                                          std::to_string(capacity) + " in use on fake:" + std::to_string(ordinal));
    }
    if (config_->faults->fails_to_start(ordinal, FakeFaults::Start::alloc)) {
      return Error(ErrorKind::device, "fake:" + std::to_string(ordinal) + " gives no memory");
    }
    ++config_->ledger->allocs_by_mode[static_cast<std::size_t>(mode)];
    return FakeSlab(std::make_shared<FakeBlock>(ordinal, bytes, alignment, config_->ledger));
  }

  Status zero(FakeStream& stream, Place<FakeSlab> place, std::size_t bytes) {
    return stream.native()->enqueue([at = FakeAt(place), bytes] {
      if (std::byte* to = at.data(0, bytes)) {
        std::memset(to, 0, bytes);
      }
      return Status();
    });
  }
  Status copy_in(FakeStream& stream, Place<FakeSlab> place, const void* from, std::size_t bytes) {
    return copying(stream, [at = FakeAt(place), from, bytes] { move(at.data(0, bytes), from, bytes); });
  }
  Status copy_out(FakeStream& stream, void* to, Place<FakeSlab> place, std::size_t bytes) {
    return copying(stream, [at = FakeAt(place), to, bytes] { move(to, at.data(0, bytes), bytes); });
  }
  Status copy(FakeStream& stream, Place<FakeSlab> to, Place<FakeSlab> from, std::size_t bytes) {
    return copying(stream, [to = FakeAt(to), from = FakeAt(from), bytes] { move(to.data(0, bytes), from.data(0, bytes), bytes); });
  }

  Result<std::unique_ptr<FakeStream>> make_stream(std::size_t ordinal, std::size_t /*subordinal*/) {
    const auto& device = devices_[ordinal];
    if (device->lost) {
      return device->lost_error();
    }
    if (config_->faults->fails_to_start(ordinal, FakeFaults::Start::stream)) {
      return Error(ErrorKind::device, "fake:" + std::to_string(ordinal) + " gives no stream");
    }
    auto native = std::make_shared<FakeNative>(device, config_->async);
    {
      const std::lock_guard lock(device->mutex);
      device->streams.push_back(native);
    }
    return std::make_unique<FakeStream>(std::move(native), config_->ledger);
  }
  void enter(FakeStream& /*stream*/, const std::function<void()>& body) { body(); }
  Status record(FakeStream& stream, Ticket ticket) { return stream.native()->record(ticket); }
  Result<bool> reached(FakeStream& stream, Ticket ticket) { return stream.native()->reached(ticket); }
  Result<bool> finish(FakeStream& stream, Ticket ticket, Deadline deadline) { return stream.native()->finish(ticket, deadline); }
  Status wait_for(FakeStream& stream, FakeStream& other, Ticket ticket) {
    return stream.native()->enqueue([native = stream.native().get(), other = other.native(), ticket]() -> Status {
      std::optional<Result<bool>> done;
      const bool wanted = native->stuck_in([&] { done = other->finish(ticket, {}); });
      if (!*done) {
        return done->error();
      }
      return wanted && **done ? Status() : Error(ErrorKind::device, "the stream waited for has ended");
    });
  }

  /// int8 is what it does not have.
  Result<Layout> layout(const Graph& graph, const TensorSource& /*tensors*/) {
    if (fake_precision(graph) == Precision::int8) {
      return Error(ErrorKind::unsupported, "int8 on fake devices");
    }
    return Layout{config_->weight_bytes};
  }
  Status load(FakeStream& stream, const Graph& graph, const Layout& /*layout*/, const TensorSource& tensors, Place<FakeSlab> place) {
    const std::size_t ordinal = stream.native()->device().ordinal;
    ++config_->ledger->loads;
    if (config_->faults->fails_to_start(ordinal, FakeFaults::Start::load)) {
      return Error(ErrorKind::device, "fake:" + std::to_string(ordinal) + " does not load");
    }
    auto seed = fake_seed(tensors);
    if (!seed) {
      return std::move(seed).error();
    }
    config_->ledger->loads_by_precision[static_cast<std::size_t>(fake_precision(graph))] += 1;
    return stream.native()->enqueue([at = FakeAt(place), seed = fake_seed_in(fake_precision(graph), *seed)] {
      move(at.data(0, sizeof(seed)), &seed, sizeof(seed));
      return Status();
    });
  }
  Result<Code> compile(const Graph& graph, const Bucket& bucket, const HardwareLimits& limits) {
    ++config_->ledger->compiles;
    return Code{bucket, limits, fake_precision(graph)};
  }
  [[nodiscard]] std::size_t arena_bytes(std::size_t /*ordinal*/, const Code& code) const { return 64 + code.bucket.tokens; }
  Result<Routine> link(std::size_t /*ordinal*/, const Graph& /*graph*/, const Layout& /*layout*/, const Code& code,
                       Place<FakeSlab> /*weights*/) {
    ++config_->ledger->links;
    return Routine{code.bucket, code.precision};
  }
  Status run(FakeStream& stream, Routine& routine, const Places<FakeSlab>& places, const Extent& counts) {
    ++config_->ledger->runs;
    const auto& native = stream.native();
    if (!native->async()) {  // places are looked at when they are used: after a hang
      return native->enqueue([&] {
        const auto memory = [&] { return Memory(places); };
        return compute(*config_, *native, memory, routine, counts);
      });
    }
    return native->enqueue([config = config_, native = native.get(), places = Memory(places), routine, counts] {
      const auto memory = [&] { return places; };
      return compute(*config, *native, memory, routine, counts);
    });
  }

 private:
  struct Memory {
    explicit Memory(const Places<FakeSlab>& places)
        : weights(places.weights), arena(places.arena), inputs(places.inputs), outputs(places.outputs) {}
    FakeAt weights;
    FakeAt arena;
    FakeAt inputs;
    FakeAt outputs;
  };

  static void move(void* to, const void* from, std::size_t bytes) {
    if (to != nullptr && from != nullptr && bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }

  template <class Fn>
  Status copying(FakeStream& stream, Fn fn) {
    FakeDeviceState& device = stream.native()->device();
    return stream.native()->enqueue([&device, faults = config_->faults, fn = std::move(fn)]() -> Status {
      if (faults->copy_fails(device.ordinal, ++device.copies)) {
        return Error(ErrorKind::device, "a copy on fake:" + std::to_string(device.ordinal) + " failed");
      }
      fn();
      return {};
    });
  }

  template <class Get>
  static Status compute(const Config& config, FakeNative& native, const Get& memory, const Routine& routine, const Extent& counts) {
    FakeDeviceState& device = native.device();
    const BatchLayout layout(routine.bucket);
    const auto* ids = reinterpret_cast<const std::uint32_t*>(memory().inputs.data(layout.ids, counts.tokens * sizeof(std::uint32_t)));
    if (ids == nullptr) {
      return Error(ErrorKind::device, "no inputs");
    }
    const std::string name = "fake:" + std::to_string(device.ordinal);
    switch (config.faults->at_run(device.ordinal, ++device.runs, {ids, counts.tokens})) {
      case FakeFault::soft:
        return Error(ErrorKind::device, "a run on " + name + " failed");
      case FakeFault::lost:
        device.lose();
        return device.lost_error();
      case FakeFault::hang:
        if (!native.stuck_in([&] { config.faults->hang(); })) {
          return Error(ErrorKind::device, "the stream has ended");
        }
        break;
      default:
        break;
    }
    const FakeDevice& facts = config.devices[device.ordinal];
    if (const auto time = facts.per_batch + facts.per_token * counts.tokens; time.count() > 0) {
      std::this_thread::sleep_for(time);
    }
    config.ledger->ran(routine.precision, counts.seqs);
    return score(config, memory(), routine, counts);
  }

  static Status score(const Config& config, const Memory& memory, const Routine& routine, const Extent& counts) {
    const Bucket& bucket = routine.bucket;
    const BatchLayout in(bucket);
    const ScoreLayout out(bucket);
    const auto words = [&](std::size_t offset, std::size_t count) {
      const std::byte* at = memory.inputs.data(offset, count * sizeof(std::uint32_t));
      return std::span(reinterpret_cast<const std::uint32_t*>(at), at == nullptr ? 0 : count);
    };
    const auto ids = words(in.ids, counts.tokens);
    const auto cu = words(in.cu, counts.seqs + 1);
    const auto markers = words(in.markers, counts.markers);
    const auto mcu = words(in.mcu, counts.seqs + 1);
    const std::byte* qtype = memory.inputs.data(in.qtype, counts.seqs);
    std::byte* logits = memory.outputs.data(out.logits, counts.markers * sizeof(float));
    std::byte* act = memory.outputs.data(out.act, counts.seqs * 2 * sizeof(float));
    std::byte* arena = memory.arena.data(0, 64 + bucket.tokens);
    const std::byte* weights = memory.weights.data(0, sizeof(std::uint64_t));
    if (cu.empty() || mcu.empty() || logits == nullptr || act == nullptr || arena == nullptr || weights == nullptr) {
      return Error(ErrorKind::device, "memory is missing");
    }
    if (cu.back() != counts.tokens || mcu.back() != counts.markers) {
      return Error(ErrorKind::device, "the inputs are not the batch that was launched");
    }
    std::uint64_t seed = 0;
    std::memcpy(&seed, weights, sizeof(seed));
    std::fill_n(arena, 64 + bucket.tokens, FakeBlock::kPoison);
    for (std::size_t s = 0; s < counts.seqs; ++s) {
      if (cu[s] > cu[s + 1] || cu[s + 1] > counts.tokens || mcu[s] > mcu[s + 1] || mcu[s + 1] > counts.markers) {
        return Error(ErrorKind::device, "the inputs are not in order");
      }
      FakeScores scores = expected_fake_scores(seed, ids.subspan(cu[s], cu[s + 1] - cu[s]), markers.subspan(mcu[s], mcu[s + 1] - mcu[s]),
                                               static_cast<std::uint8_t>(qtype[s]));
      if (routine.precision == Precision::f16) {
        fake_overflow(config.overflows_from, seed, ids.subspan(cu[s], cu[s + 1] - cu[s]), scores);
      }
      if (!scores.logits.empty()) {
        std::memcpy(logits + mcu[s] * sizeof(float), scores.logits.data(), scores.logits.size() * sizeof(float));
      }
      std::memcpy(act + s * sizeof(scores.act), scores.act.data(), sizeof(scores.act));
    }
    return {};
  }

  std::shared_ptr<const Config> config_;  // what is under way keeps it
  std::vector<std::shared_ptr<FakeDeviceState>> devices_;
};

static_assert(Driver<FakeDriver>);

}  // namespace kime::test
