#include "kime/runtime/strategy.h"

#include <algorithm>
#include <charconv>

namespace kime {

std::size_t StreamStrategy::streams(std::size_t cores, Kind otherwise) const {
  switch (kind == Kind::automatic ? otherwise : kind) {
    case Kind::overlap:
      return 2;
    case Kind::cores:
      return std::max<std::size_t>(cores, 1);
    case Kind::number:
      return count;
    case Kind::automatic:
    case Kind::one:
      break;
  }
  return 1;
}

Result<StreamStrategy> parse_streams(std::string_view text) {
  using Kind = StreamStrategy::Kind;
  if (text == "one") {
    return StreamStrategy{Kind::one, 0};
  }
  if (text == "overlap") {
    return StreamStrategy{Kind::overlap, 0};
  }
  if (text == "cores") {
    return StreamStrategy{Kind::cores, 0};
  }
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return Error(ErrorKind::input, "--streams '" + std::string(text) + "': it takes one, overlap, cores, or a number");
  }
  if (count == 0 || count > StreamStrategy::kMost) {
    return Error(ErrorKind::input,
                 "--streams " + std::string(text) + ": a device has 1 to " + std::to_string(StreamStrategy::kMost) + " streams");
  }
  return StreamStrategy{Kind::number, count};
}

}  // namespace kime
