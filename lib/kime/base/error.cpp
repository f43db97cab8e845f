#include "kime/base/error.h"

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

}  // namespace kime
