// Results that a test cannot go on without.
#pragma once

#include <catch2/catch.hpp>
#include <utility>

#include "kime/base/error.h"

namespace kime::test {

/// The value of a result that must be there.
template <class T>
T get(Result<T> result) {
  if (!result) {
    FAIL(result.error().text());
  }
  return *std::move(result);
}
inline void ok(const Status& status) {
  if (!status) {
    FAIL(status.error().text());
  }
}

}  // namespace kime::test
