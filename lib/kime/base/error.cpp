#include "kime/base/error.h"

#include <fmt/format.h>

#include <system_error>

namespace kime {

std::string Error::text() const {
  switch (kind_) {
    case ErrorKind::batch:
      return "bad batch: " + message_;
    case ErrorKind::unsupported:
      return "unsupported: " + message_;
    case ErrorKind::device:
      return "device: " + message_;
    case ErrorKind::no_bucket:
    case ErrorKind::input:
      break;
  }
  return message_;
}

Error system_error(std::string_view name, int error) {
  return {ErrorKind::input, fmt::format("{}: {}", name, std::generic_category().message(error))};
}

}  // namespace kime
