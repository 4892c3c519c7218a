#pragma once

// Every error that a caller can cause is one of these exceptions. They are thrown before anything is written,
// in every build type, and their text names the argument and all sizes: "key has 60 rows, value has 64".

#include "heed/core/config.hpp"

#include <charconv>
#include <stdexcept>
#include <string>

namespace heed {

/// Base of all exceptions that Heed throws (std::bad_alloc aside).
class HEED_EXPORT Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Sizes that do not fit each other.
class HEED_EXPORT ShapeError : public Error {
  using Error::Error;
};

/// An option or argument with a value that makes no sense, or that contradicts another.
class HEED_EXPORT ArgumentError : public Error {
  using Error::Error;
};

/// An index (a token id, a position) outside its table.
class HEED_EXPORT RangeError : public Error {
  using Error::Error;
};

/// A file that cannot be opened, read or written, or whose content is not what its format promises.
class HEED_EXPORT FileError : public Error {
  using Error::Error;
};

/// Text that is not what the caller promised, such as broken UTF-8 where it is refused.
class HEED_EXPORT TextError : public Error {
  using Error::Error;
};

/// A training that has left the numbers: a loss or a gradient that is NaN or infinite.
class HEED_EXPORT TrainingError : public Error {
  using Error::Error;
};

// The throwing halves are compiled once and kept out of the callers' hot code.
[[noreturn]] HEED_EXPORT void throw_shape_error(const std::string& message);
[[noreturn]] HEED_EXPORT void throw_argument_error(const std::string& message);
[[noreturn]] HEED_EXPORT void throw_range_error(const std::string& message);
[[noreturn]] HEED_EXPORT void throw_file_error(const std::string& message);
[[noreturn]] HEED_EXPORT void throw_text_error(const std::string& message);
[[noreturn]] HEED_EXPORT void throw_training_error(const std::string& message);

namespace detail {

/// Returns the shortest digits that give this number, for messages: the same in every locale, which
/// std::to_string and streams follow.
HEED_EXPORT std::string number_text(double value);
HEED_EXPORT std::string number_text(float value);

/// Returns the number in a form of printf's %f, %e or %g with a precision, in every locale the same.
HEED_EXPORT std::string number_text(double value, std::chars_format form, int precision);

}  // namespace detail

}  // namespace heed
