#include "kime/io/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "kime/io/unpacker.h"

namespace kime {
namespace {

constexpr std::size_t kPackedBlock = std::size_t{1} << 17;
constexpr std::size_t kMagicBytes = 4;

}  // namespace

struct ByteSource::State {
  int fd = -1;
  int wake_fd = -1;
  std::string name;
  std::optional<Compression> compression;  ///< Nothing before enough has been read to tell.
  std::unique_ptr<Unpacker> unpacker;
  std::string failure;      ///< Of the unpacker, once it has failed.
  std::vector<char> block;  ///< What was read and is still to be unpacked, or to be handed out where nothing is packed.
  std::string_view held;    ///< The rest of `block`.
  bool at_end = false;      ///< The file has no more.
  std::uint64_t file_bytes = 0;
  std::uint64_t text_bytes = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (fd > STDERR_FILENO) {
      ::close(fd);
    }
  }

  /// Reads the file once.
  Result<Read> read_file(std::span<char> out, bool may_wait) {
    for (;;) {
      std::array<pollfd, 2> wait = {pollfd{fd, POLLIN, 0}, pollfd{wake_fd, POLLIN, 0}};
      const int polled = ::poll(wait.data(), wake_fd < 0 ? 1 : 2, may_wait ? -1 : 0);
      if (polled < 0 && errno != EINTR) {
        return system_error(name, errno);
      }
      if (wake_fd >= 0 && wait[1].revents != 0) {
        return Read{Got::stopped, 0};
      }
      if (polled == 0) {
        return Read{Got::waiting, 0};
      }
      if (polled < 0) {
        continue;
      }
      const ssize_t count = ::read(fd, out.data(), out.size());
      if (count > 0) {
        file_bytes += static_cast<std::uint64_t>(count);
        return Read{Got::bytes, static_cast<std::size_t>(count)};
      }
      if (count == 0) {
        at_end = true;
        return Read{};
      }
      if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
        return Error(ErrorKind::input, fmt::format("{}: {} after {} bytes", name, std::generic_category().message(errno), file_bytes));
      }
    }
  }

  /// Reads until the first bytes tell what the file is.
  Result<Got> detect(bool may_wait) {
    block.resize(kPackedBlock);
    std::size_t filled = held.size();
    while (!compression) {
      const auto more = read_file(std::span(block).subspan(filled), may_wait);
      if (!more) {
        return more.error();
      }
      if (more->got == Got::waiting || more->got == Got::stopped) {
        return more->got;
      }
      filled += more->count;
      held = {block.data(), filled};
      compression = detect_compression(held.substr(0, kMagicBytes), at_end);
    }
    if (*compression != Compression::none) {
      unpacker = Unpacker::make(*compression);
      if (unpacker == nullptr) {
        return system_error(name, ENOMEM);
      }
    }
    return Got::bytes;
  }

  /// Detects where that is still to be done; anything but `bytes` says why it could not.
  Result<Got> detected(bool may_wait) { return compression ? Result<Got>(Got::bytes) : detect(may_wait); }

  /// Moves the file to `offset`, with nothing unpacked from there yet.
  Status seek(std::uint64_t offset) {
    if (::lseek(fd, static_cast<off_t>(offset), SEEK_SET) < 0) {
      return system_error(name, errno);
    }
    held = {};
    at_end = false;
    file_bytes = offset;
    return {};
  }

  Status rewind() {
    unpacker = Unpacker::make(*compression);
    if (unpacker == nullptr) {
      return system_error(name, ENOMEM);
    }
    text_bytes = 0;
    failure.clear();
    return seek(0);
  }

  Result<Got> unpack_to(std::uint64_t offset) {
    if (offset < text_bytes) {
      if (auto back = rewind(); !back) {
        return std::move(back).error();
      }
    }
    std::vector<char> unwanted(kPackedBlock);
    while (text_bytes < offset) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(unwanted.size(), offset - text_bytes));
      const auto got = read_packed(std::span(unwanted).first(count), true);
      if (!got) {
        return got.error();
      }
      if (got->got == Got::stopped) {
        return got->got;
      }
      if (got->got == Got::end) {
        return Error(ErrorKind::input, fmt::format("{}: ends after {} unpacked bytes, before byte {}", name, text_bytes, offset));
      }
    }
    return Got::bytes;
  }

  [[nodiscard]] std::string_view packing() const { return *compression == Compression::gzip ? "gzip" : "zstd"; }

  Result<Read> read_packed(std::span<char> out, bool may_wait) {
    for (;;) {
      const std::size_t count = failure.empty() ? unpacker->unpack(held, out, failure) : 0;
      text_bytes += count;
      if (count > 0) {
        return Read{Got::bytes, count};  // A failure is told by the next call, after what was whole.
      }
      if (!failure.empty()) {
        return Error(ErrorKind::input, fmt::format("{}: damaged {} data before byte {} ({} bytes unpacked): {}", name, packing(),
                                                   file_bytes - held.size(), text_bytes, failure));
      }
      if (at_end) {
        if (unpacker->complete()) {
          return Read{};
        }
        return Error(ErrorKind::input, fmt::format("{}: truncated: its {} data breaks off after {} bytes ({} bytes unpacked)", name,
                                                   packing(), file_bytes, text_bytes));
      }
      auto more = read_file(block, may_wait);
      if (!more || more->got == Got::waiting || more->got == Got::stopped) {
        return more;
      }
      held = {block.data(), more->count};
    }
  }
};

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {
}
ByteSource::ByteSource(ByteSource&& other) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&& other) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path, int wake_fd) {
  auto state = std::make_unique<State>();
  const bool is_stdin = path == "-";
  state->name = is_stdin ? "standard input" : path;
  state->wake_fd = wake_fd;
  state->fd = is_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  struct stat info = {};
  if (state->fd < 0 || ::fstat(state->fd, &info) != 0) {
    return system_error(state->name, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    return system_error(state->name, EISDIR);
  }
  return ByteSource(std::move(state));
}

Result<ByteSource::Read> ByteSource::read(std::span<char> out, bool may_wait) {
  State& state = *state_;
  const auto known = state.detected(may_wait);
  if (!known) {
    return known.error();
  }
  if (*known != Got::bytes) {
    return Read{*known, 0};
  }
  if (state.unpacker != nullptr) {
    return state.read_packed(out, may_wait);
  }
  if (!state.held.empty()) {
    const std::size_t count = std::min(state.held.size(), out.size());
    std::memcpy(out.data(), state.held.data(), count);
    state.held.remove_prefix(count);
    return Read{Got::bytes, count};
  }
  return state.at_end ? Read{} : state.read_file(out, may_wait);
}

void ByteSource::give_back() {
  State& state = *state_;
  state.file_bytes = file_position();
  state.at_end = true;
  state.held = {};
  std::vector<char>().swap(state.block);
  state.unpacker.reset();
}

Result<ByteSource::Got> ByteSource::skip_to(std::uint64_t offset) {
  State& state = *state_;
  auto known = state.detected(true);
  if (!known || *known != Got::bytes) {
    return known;
  }
  if (state.unpacker != nullptr) {
    return state.unpack_to(offset);
  }
  if (auto moved = state.seek(offset); !moved) {
    return std::move(moved).error();
  }
  return Got::bytes;
}

Result<std::optional<bool>> ByteSource::packed() {
  const auto known = state_->detected(true);
  if (!known) {
    return known.error();
  }
  return *known == Got::bytes ? std::optional(unpacks()) : std::nullopt;
}

std::uint64_t ByteSource::file_position() const {
  return state_->file_bytes - (unpacks() ? 0 : state_->held.size());
}

bool ByteSource::unpacks() const {
  return state_->compression.value_or(Compression::none) != Compression::none;
}

int ByteSource::fd() const {
  return state_->fd;
}

std::string_view ByteSource::name() const {
  return state_->name;
}

}  // namespace kime
