#include "kime/backend/cpu/weight_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "kime/backend/cpu/until_failure.h"
#include "kime/backend/cpu/weight_key.h"
#include "kime/base/descriptor.h"
#include "kime/base/same_file.h"

namespace kime::cpu {

namespace {

static_assert(std::endian::native == std::endian::little);  // a file's integers

constexpr std::string_view kMagic = "kimewght";
constexpr std::size_t kCachedPiece = std::size_t{4} << 20;
constexpr std::size_t kStep = std::size_t{256} << 10;  // of a piece, so that what was read is still in the core's cache for its checksum
constexpr std::size_t kPage = 4096;

// What is wrong, in words; nothing if all went well.
using Trouble = std::optional<std::string>;

Trouble system_trouble(std::string_view what, int error) {
  return fmt::format("{}: {}", what, std::strerror(error));
}

// All of `bytes` at `offset`.
Trouble read_at(int fd, std::span<std::byte> bytes, std::size_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return got == 0 ? Trouble("it ends too early") : system_trouble("it cannot be read", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::size_t>(got);
  }
  return {};
}

Trouble write_at(int fd, std::span<const std::byte> bytes, std::size_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return system_trouble("it cannot be written", put == 0 ? ENOSPC : errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::size_t>(put);
  }
  return {};
}

constexpr std::size_t pieces_of(std::size_t block) {
  return (block + kCachedPiece - 1) / kCachedPiece;
}

// The checksum of a piece, step by step: each step's is the next one's seed.
std::uint64_t add_step(std::uint64_t checksum, std::span<const std::byte> step) {
  return XXH3_64bits_withSeed(step.data(), step.size(), checksum);
}

// What stands before the block.
class Head {
 public:
  explicit Head(std::size_t block) : bytes_((kTable + 8 * pieces_of(block) + 8 + kPage - 1) / kPage * kPage) {}
  Head(const WeightKey& key, std::size_t block) : Head(block) {
    std::memcpy(bytes_.data(), kMagic.data(), kMagic.size());
    put(8, kCacheFormat);
    put(12, static_cast<std::uint32_t>(kCachedPiece));
    std::memcpy(bytes_.data() + 16, key.bytes.data(), key.bytes.size());
    put(32, std::uint64_t{block});
  }

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] std::uint64_t checksum(std::size_t piece) const { return at<std::uint64_t>(kTable + 8 * piece); }
  void set_checksum(std::size_t piece, std::uint64_t checksum) { put(kTable + 8 * piece, checksum); }
  void seal() { put(bytes_.size() - 8, own_checksum()); }

  // What keeps it, as read from a file, from being the head of what `wanted` describes.
  [[nodiscard]] Trouble judge(const Head& wanted) const {
    if (std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) {
      return "it holds no weights of kime's";
    }
    if (const auto format = at<std::uint32_t>(8); format != kCacheFormat) {
      return fmt::format("it is of format {}, not {}", format, kCacheFormat);
    }
    if (at<std::uint64_t>(bytes_.size() - 8) != own_checksum()) {
      return "its head is damaged";
    }
    if (std::memcmp(bytes_.data(), wanted.bytes_.data(), kTable) != 0) {
      return "it holds other weights";
    }
    return {};
  }

 private:
  static constexpr std::size_t kTable = 40;

  [[nodiscard]] std::uint64_t own_checksum() const { return XXH3_64bits(bytes_.data(), bytes_.size() - 8); }
  template <class T>
  [[nodiscard]] T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
  }

  std::vector<std::byte> bytes_;
};

// A block of weights and who works on it.
struct Block {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  const Crew& crew;
  std::size_t threads = 1;

  // Calls fn(piece, offset, bytes) for the pieces in parallel, until one has trouble.
  template <class Fn>
  [[nodiscard]] Trouble each_piece(const Fn& fn) const {
    return until_failure<std::string>(crew, threads, pieces_of(bytes), [&](std::size_t piece, std::size_t /*worker*/) -> Trouble {
      const std::size_t offset = piece * kCachedPiece;
      return fn(piece, offset, std::span(memory + offset, std::min(kCachedPiece, bytes - offset)));
    });
  }
};

struct Reading {
  enum class Outcome { read, absent, bad } outcome;
  std::string why;     ///< When bad.
  bool dirty = false;  ///< Something was read to the block.
};

Reading read_file(const std::string& path, const WeightKey& key, const Block& block) {
  using enum Reading::Outcome;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe in its place must not hold up the run
  if (file.get() < 0) {
    // A file where the folder should be: writing will say so.
    return errno == ENOENT || errno == ENOTDIR ? Reading{absent, ""} : Reading{bad, *system_trouble("it cannot be opened", errno)};
  }
  const Head wanted(key, block.bytes);
  Head head(block.bytes);
  struct stat about = {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return {bad, "it is no file"};
  }
  const std::size_t begin = head.bytes().size();
  const std::size_t size = begin + block.bytes;
  if (static_cast<std::uint64_t>(about.st_size) != size) {
    return {bad, fmt::format("it has {} bytes, not {}", about.st_size, size)};
  }
  if (auto trouble = read_at(file.get(), head.bytes(), 0)) {
    return {bad, *std::move(trouble)};
  }
  if (auto trouble = head.judge(wanted)) {
    return {bad, *std::move(trouble)};
  }
  auto trouble = block.each_piece([&](std::size_t piece, std::size_t offset, std::span<std::byte> bytes) -> Trouble {
    std::uint64_t checksum = 0;
    for (std::size_t done = 0; done < bytes.size(); done += kStep) {
      const auto step = bytes.subspan(done, std::min(kStep, bytes.size() - done));
      if (auto failed = read_at(file.get(), step, begin + offset + done)) {
        return failed;
      }
      checksum = add_step(checksum, step);
    }
    return checksum == head.checksum(piece) ? Trouble() : Trouble("its content is damaged");
  });
  return trouble ? Reading{bad, *std::move(trouble), true} : Reading{read, ""};
}

// The block and its head to the file, and to the disk.
Trouble write_block(int fd, const WeightKey& key, const Block& block) {
  Head head(key, block.bytes);
  const std::size_t begin = head.bytes().size();
  if (::ftruncate(fd, 0) != 0) {
    return system_trouble("it cannot be written", errno);
  }
  auto trouble = block.each_piece([&](std::size_t piece, std::size_t offset, std::span<const std::byte> bytes) -> Trouble {
    std::uint64_t checksum = 0;
    for (std::size_t done = 0; done < bytes.size(); done += kStep) {
      const auto step = bytes.subspan(done, std::min(kStep, bytes.size() - done));
      checksum = add_step(checksum, step);
      if (auto failed = write_at(fd, step, begin + offset + done)) {
        return failed;
      }
    }
    head.set_checksum(piece, checksum);  // each piece's own eight bytes
    return {};
  });
  if (trouble) {
    return trouble;
  }
  head.seal();
  if (trouble = write_at(fd, head.bytes(), 0); !trouble && ::fsync(fd) != 0) {
    trouble = system_trouble("it cannot be written", errno);
  }
  return trouble;
}

struct Writing {
  bool stored = false;
  Trouble trouble = {};
};

// Under another name first, then under its own. That name is the same for all processes, and who holds the lock on it writes: what a killed
// one left is taken over, and a second one leaves the work to the first.
Writing write_file(const std::string& folder, const std::string& path, const WeightKey& key, const Block& block) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return {false, fmt::format("its folder cannot be made: {}", failed.message())};
  }
  const std::string part = path + ".part";
  const Descriptor file(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file.get() < 0) {
    return {false, system_trouble("it cannot be written", errno)};
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Writing() : Writing{false, system_trouble("it cannot be locked", errno)};
  }
  // Another one may have finished between the opening and the locking: then this is its file, under its last name by now.
  struct stat mine = {};
  struct stat there = {};
  if (::fstat(file.get(), &mine) != 0 || ::stat(part.c_str(), &there) != 0 || !same_file(mine, there)) {
    return {};
  }
  auto trouble = write_block(file.get(), key, block);
  if (!trouble && std::rename(part.c_str(), path.c_str()) != 0) {
    trouble = system_trouble("it cannot be written", errno);
  }
  if (trouble) {
    ::unlink(part.c_str());  // so that it takes no space
    return {false, std::move(trouble)};
  }
  return {true};
}

// One notice for all that was wrong; empty if nothing was.
std::string notice_of(const std::string& path, const Reading& reading, const Writing& writing) {
  if (reading.outcome != Reading::Outcome::bad) {
    return writing.trouble ? fmt::format("cache: {}: {}", path, *writing.trouble) : "";
  }
  if (writing.trouble) {
    return fmt::format("cache: {}: {}, and {}; weights come from the checkpoint", path, reading.why, *writing.trouble);
  }
  return fmt::format("cache: {}: {}; weights come from the checkpoint, and the file is written anew", path, reading.why);
}

}  // namespace

WeightCache::WeightCache(std::string folder, std::function<void(const std::string&)> notice)
    : folder_(std::move(folder)), notice_(std::move(notice)) {
}

Status WeightCache::load(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, const kernels::Table& table,
                         const Crew& crew, std::size_t threads, std::byte* memory) {
  const auto key = weight_key(tensors, graph, layout, table, crew, threads);
  if (!key) {
    return key.error();
  }
  count(&Counts::loads);
  const std::string path = (std::filesystem::path(folder_) / (key->hex() + ".kimew")).string();
  const Block block{memory, layout.bytes(), crew, threads};
  const Reading reading = read_file(path, *key, block);
  if (reading.outcome == Reading::Outcome::read) {
    count(&Counts::read);
    return {};
  }
  if (reading.dirty) {  // packing leaves out what is zero
    static_cast<void>(block.each_piece([](std::size_t, std::size_t, std::span<std::byte> bytes) -> Trouble {
      std::ranges::fill(bytes, std::byte{});
      return {};
    }));
  }
  if (auto packed = load_weights(tensors, graph, layout, table, crew, threads, memory); !packed) {
    return packed;
  }
  Writing writing;
  if (const auto after = weight_key(tensors, graph, layout, table, crew, threads); after && *after == *key) {
    writing = write_file(folder_, path, *key, block);
  } else {  // a file of this name would give others the wrong weights
    writing.trouble = "it is not written: the checkpoint changed while it was read";
  }
  if (writing.stored) {
    count(&Counts::stored);
  }
  if (const std::string text = notice_of(path, reading, writing); notice_ && !text.empty()) {
    notice_(text);
  }
  return {};
}

WeightCache::Counts WeightCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void WeightCache::count(std::size_t Counts::*what) {
  const std::lock_guard lock(mutex_);
  ++(counts_.*what);
}

}  // namespace kime::cpu
