// Errors as values. Nothing in kime throws across a function's boundary for a reason that a user can cause: what can fail returns a
// Result<T>, and [[nodiscard]] makes the compiler object when it is dropped.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace kime {

/// What went wrong, in the words of the engine's contract.
enum class ErrorKind {
  batch,        ///< A batch or a record is inconsistent ("bad batch: ...").
  no_bucket,    ///< No bucket of the stage holds the batch (the message says it all, no prefix).
  unsupported,  ///< A graph, a checkpoint or a shape that this build cannot run ("unsupported: ...").
  device,       ///< A device or its driver failed ("device: ...").
  input,        ///< A file could not be read or means nothing; the message names file and field (no prefix).
};

/// A kind and a message. The message has no prefix; `text()` adds the kind's.
class Error {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  /// The message as a person reads it: "bad batch: ", "unsupported: " and "device: " stand before their kinds.
  [[nodiscard]] std::string text() const;

 private:
  ErrorKind kind_;
  std::string message_;
};

/// What the system says of a file: "NAME: No such file or directory", of kind `input`. `error` is errno's.
[[nodiscard]] Error system_error(std::string_view name, int error);

/// Either a T or an Error. Ask with `if (result)` before `*result`, `result->` or `result.error()`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor): `return value;`
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor): `return error;`

  explicit operator bool() const { return state_.index() == 0; }
  [[nodiscard]] T& operator*() & { return *std::get_if<0>(&state_); }
  [[nodiscard]] const T& operator*() const& { return *std::get_if<0>(&state_); }
  [[nodiscard]] T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] T* operator->() { return std::get_if<0>(&state_); }
  [[nodiscard]] const T* operator->() const { return std::get_if<0>(&state_); }
  [[nodiscard]] const Error& error() const& { return *std::get_if<1>(&state_); }
  [[nodiscard]] Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor): `return error;`

  explicit operator bool() const { return state_.index() == 0; }
  [[nodiscard]] const Error& error() const& { return *std::get_if<1>(&state_); }
  [[nodiscard]] Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<std::monostate, Error> state_;
};

using Status = Result<void>;

}  // namespace kime
