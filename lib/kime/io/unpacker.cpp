#include "kime/io/unpacker.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>

namespace kime {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
constexpr std::string_view kZstdSkippable = "\x2a\x4d\x18";  // After a byte 0x50 to 0x5f.

unsigned clip(std::size_t size) {
  return static_cast<unsigned>(std::min<std::size_t>(size, std::numeric_limits<unsigned>::max()));
}

class GzipUnpacker final : public Unpacker {
 public:
  GzipUnpacker() : good_(inflateInit2(&stream_, 15 + 16) == Z_OK) {}  // The largest window; gzip and nothing else.
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;
  ~GzipUnpacker() override { inflateEnd(&stream_); }

  [[nodiscard]] bool good() const { return good_; }

  std::size_t unpack(std::string_view& packed, std::span<char> out, std::string& failure) override {
    std::size_t written = 0;
    while (written < out.size() && (!packed.empty() || full_)) {
      if (between_ && !next_member(packed, failure)) {
        break;
      }
      // zlib's interface predates const.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
      stream_.avail_in = clip(packed.size());
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + written);
      stream_.avail_out = clip(out.size() - written);
      const unsigned room = stream_.avail_out;
      const unsigned given = stream_.avail_in;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      packed.remove_prefix(given - stream_.avail_in);
      written += room - stream_.avail_out;
      full_ = stream_.avail_out == 0 && result == Z_OK;
      if (result == Z_STREAM_END) {
        between_ = true;
        members_ = true;
      } else if (result == Z_BUF_ERROR) {
        break;  // Nothing more without more input.
      } else if (result != Z_OK) {
        failure = stream_.msg != nullptr ? stream_.msg : "out of memory";
        break;
      }
    }
    return written;
  }

  [[nodiscard]] bool complete() const override { return between_; }
  [[nodiscard]] bool holds_output() const override { return full_; }

 private:
  /// At a member's end: starts the next one where there is one. Zeros may follow the last one, as tapes and block devices leave them.
  bool next_member(std::string_view& packed, std::string& failure) {
    packed.remove_prefix(std::min(packed.find_first_not_of('\0'), packed.size()));
    if (packed.empty()) {
      return false;
    }
    if (members_ && packed.front() != kGzip.front()) {
      failure = "what follows the end is not gzip";
      return false;
    }
    inflateReset(&stream_);
    between_ = false;
    return true;
  }

  z_stream stream_{};
  bool good_;
  bool between_ = true;   ///< No member is open.
  bool members_ = false;  ///< One has ended.
  bool full_ = false;     ///< The last call ended for want of room.
};

class ZstdUnpacker final : public Unpacker {
 public:
  ZstdUnpacker() : stream_(ZSTD_createDStream()) {}
  ZstdUnpacker(const ZstdUnpacker&) = delete;
  ZstdUnpacker& operator=(const ZstdUnpacker&) = delete;
  ~ZstdUnpacker() override { ZSTD_freeDStream(stream_); }

  [[nodiscard]] bool good() const { return stream_ != nullptr; }

  std::size_t unpack(std::string_view& packed, std::span<char> out, std::string& failure) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos < to.size && (!packed.empty() || full_)) {
      ZSTD_inBuffer from{packed.data(), packed.size(), 0};
      const std::size_t before = to.pos;
      const std::size_t result = ZSTD_decompressStream(stream_, &to, &from);
      packed.remove_prefix(from.pos);
      if (ZSTD_isError(result) != 0) {
        failure = ZSTD_getErrorName(result);
        break;
      }
      between_ = result == 0;
      full_ = !between_ && to.pos == to.size;
      if (from.pos == 0 && to.pos == before) {
        full_ = false;
        break;
      }
    }
    return to.pos;
  }

  [[nodiscard]] bool complete() const override { return between_; }
  [[nodiscard]] bool holds_output() const override { return full_; }

 private:
  ZSTD_DStream* stream_;
  bool between_ = true;
  bool full_ = false;
};

template <class T>
std::unique_ptr<Unpacker> made() {
  auto unpacker = std::make_unique<T>();
  return unpacker->good() ? std::move(unpacker) : nullptr;
}

}  // namespace

std::optional<Compression> detect_compression(std::string_view start, bool at_end) {
  // Whether `start` may be, with what is still to come, the beginning of a file with these first bytes.
  const auto maybe = [](std::string_view text, std::string_view magic) {
    const std::size_t both = std::min(text.size(), magic.size());
    return text.substr(0, both) == magic.substr(0, both);
  };
  const bool skippable =
      !start.empty() && (static_cast<unsigned char>(start.front()) & 0xF0U) == 0x50 && maybe(start.substr(1), kZstdSkippable);
  const bool zstd = maybe(start, kZstd) || skippable;
  const bool gzip = maybe(start, kGzip);
  if (gzip && start.size() >= kGzip.size()) {
    return Compression::gzip;
  }
  if (zstd && start.size() >= kZstd.size()) {
    return Compression::zstd;
  }
  if (at_end || (!gzip && !zstd)) {
    return Compression::none;
  }
  return std::nullopt;
}

std::unique_ptr<Unpacker> Unpacker::make(Compression compression) {
  return compression == Compression::gzip ? made<GzipUnpacker>() : made<ZstdUnpacker>();
}

}  // namespace kime
