#include "kime/base/error.h"

#include <catch2/catch.hpp>
#include <memory>

using kime::Error;
using kime::ErrorKind;
using kime::Result;
using kime::Status;

TEST_CASE("errors are printed with the prefix of their kind") {
  CHECK(Error(ErrorKind::batch, "x").text() == "bad batch: x");
  CHECK(Error(ErrorKind::unsupported, "x").text() == "unsupported: x");
  CHECK(Error(ErrorKind::device, "x").text() == "device: x");
  CHECK(Error(ErrorKind::no_bucket, "no compat bucket").text() == "no compat bucket");
  CHECK(Error(ErrorKind::input, "a.json: b").text() == "a.json: b");
  CHECK(Error(ErrorKind::device, "x").message() == "x");
}

TEST_CASE("a result is a value or an error") {
  const Result<int> value = 7;
  REQUIRE(value);
  CHECK(*value == 7);
  const Result<int> error = Error(ErrorKind::input, "gone");
  REQUIRE_FALSE(error);
  CHECK(error.error().kind() == ErrorKind::input);
  CHECK(error.error().message() == "gone");
}

TEST_CASE("a result hands over what can only be moved") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  REQUIRE(result);
  const std::unique_ptr<int> owned = *std::move(result);
  CHECK(*owned == 3);
}

TEST_CASE("a status is a success until it holds an error") {
  CHECK(Status());
  const Status failed = Error(ErrorKind::device, "lost");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text() == "device: lost");
}
