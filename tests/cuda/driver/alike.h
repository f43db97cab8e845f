// Own declarations of a library's functions against its header's.
#pragma once

#include <type_traits>

namespace kime::test {

/// Whether two types, the first kime's, are passed alike: pointers to what is alike and as const, numbers of one size.
template <class A, class B>
constexpr bool alike();

template <class A, class B>
struct Functions {
  static constexpr bool value = false;
};
template <class A, class... As, class B, class... Bs>
struct Functions<A(As...), B(Bs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(As) == sizeof...(Bs)) {
      return alike<A, B>() && (alike<As, Bs>() && ...);
    }
    return false;
  }();
};

template <class T>
struct Number {
  using Type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Number<T> {
  using Type = std::underlying_type_t<T>;
};

template <class T>
concept Complete = requires {
  sizeof(T);
};

template <class A, class B>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using To = std::remove_pointer_t<A>;
    using From = std::remove_pointer_t<B>;
    return std::is_const_v<To> == std::is_const_v<From> && alike<std::remove_const_t<To>, std::remove_const_t<From>>();
  } else if constexpr (std::is_function_v<A> || std::is_function_v<B>) {
    return Functions<A, B>::value;
  } else if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> && std::is_void_v<B>;
  } else if constexpr (std::is_class_v<A> && std::is_class_v<B>) {
    if constexpr (Complete<A> && Complete<B>) {
      return sizeof(A) == sizeof(B) && alignof(A) == alignof(B);
    } else {
      return !Complete<A>;  // what handles point to, which is not kime's business
    }
  } else if constexpr ((std::is_arithmetic_v<A> || std::is_enum_v<A>)&&(std::is_arithmetic_v<B> || std::is_enum_v<B>)) {
    return std::is_same_v<typename Number<A>::Type, typename Number<B>::Type> ||
           (std::is_integral_v<typename Number<A>::Type> && sizeof(A) == sizeof(B) &&
            std::is_signed_v<typename Number<A>::Type> == std::is_signed_v<typename Number<B>::Type>);
  } else {
    return false;
  }
}

}  // namespace kime::test
