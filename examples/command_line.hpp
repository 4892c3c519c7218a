#pragma once

// The command lines of all programs here: options that name their ranges, a help text that fits the terminal,
// and wrong arguments that end the program with code 2 and a sentence that names the flag.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/core/error.hpp"
#include "heed/plot/display_text.hpp"
#include "wrapped.hpp"

namespace demo {

/// What shells and other programs return for arguments that they do not understand.
inline constexpr int usage_error = 2;

/// From min to max, both included unless said otherwise.
template <class T>
struct Range {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
  bool without_min = false;
  bool without_max = false;

  bool has(T value) const {
    const bool low = without_min ? value > min : value >= min;
    return low && (without_max ? value < max : value <= max);  // false for NaN
  }
};

/// A number as it is written in a program: 0.002, not 0.00200000.
template <class T>
std::string digits(T value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return error == std::errc() ? std::string(text, end) : std::string("?");
}

/// "1 to 1024", "1 or more", "above 0, below 10"; empty if every number is good.
template <class T>
std::string words_of(const Range<T>& range) {
  const bool low = range.min > std::numeric_limits<T>::lowest();
  const bool high = range.max < std::numeric_limits<T>::max();
  if (!low && !high) return std::is_signed_v<T> ? "" : digits(range.min) + " to " + digits(range.max);
  if (range.without_min || range.without_max || !low) {
    std::string text;
    if (low) text = (range.without_min ? "above " : "at least ") + digits(range.min);
    if (high) {
      text += std::string(text.empty() ? "" : ", ") + (range.without_max ? "below " : "at most ") +
              digits(range.max);
    }
    return text;
  }
  return high ? digits(range.min) + " to " + digits(range.max) : digits(range.min) + " or more";
}

/// Numbers of printf's %f, %e and %g, which follow the locale.
inline std::string formatted(double value, std::chars_format format, int precision) {
  char text[512];
  return {text, std::to_chars(text, text + sizeof text, value, format, precision).ptr};
}
inline std::string fixed(double value, int decimals) {
  return formatted(value, std::chars_format::fixed, decimals);
}
inline std::string scientific(double value, int decimals) {
  return formatted(value, std::chars_format::scientific, decimals);
}
inline std::string general(double value, int places = 6) {
  return formatted(value, std::chars_format::general, places);
}

/// What an option says, for a sentence.
template <class T>
std::string words(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return digits(value);
  } else {
    return value;
  }
}

template <class T>
std::optional<T> parsed(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return whole ? std::optional<T>(value) : std::nullopt;
}

/// Refuses an argument: ends parse() with the sentence.
[[noreturn]] inline void refuse(const std::string& sentence) {
  throw CLI::ValidationError(sentence);
}

namespace detail {
template <class T, class Set>
CLI::Option* add_number(CLI::App& app, const std::string& flag, const std::string& what, Range<T> range,
                        Set set) {
  const std::string limits = words_of(range);
  const auto read = [=](const CLI::results_t& texts) {
    const std::optional<T> value = parsed<T>(texts.at(0));
    if (!value || !range.has(*value)) {
      const char* kind = std::is_integral_v<T> ? "a whole number" : "a number";
      refuse(flag + " is " + (texts[0].empty() ? "empty" : texts[0]) + ", it must be " +
             (value            ? limits
              : limits.empty() ? kind
                               : kind + (", " + limits)));
    }
    set(*value);
    return true;
  };
  return app.add_option(flag, CLI::callback_t(read), limits.empty() ? what : what + "; " + limits)
      ->type_name(std::is_integral_v<T> ? "N" : "X");
}
}  // namespace detail

/// An option that takes a number, written in full and within the range: nothing is rounded or bent to fit.
template <class T>
requires std::is_arithmetic_v<T> CLI::Option* number(CLI::App& app, const std::string& flag, T& value,
                                                     const std::string& what, Range<T> range = {}) {
  return detail::add_number<T>(app, flag, what, range, [&value](T given) { value = given; })
      ->default_str(digits(value));
}
/// The same without a default.
template <class T>
CLI::Option* number(CLI::App& app, const std::string& flag, std::optional<T>& value, const std::string& what,
                    Range<T> range = {}) {
  return detail::add_number<T>(app, flag, what, range, [&value](T given) { value = given; });
}

/// An option that names a file or a folder.
inline CLI::Option* path(CLI::App& app, const std::string& flag, std::string& value, const std::string& kind,
                         const std::string& what) {
  const auto read = [&value, flag, kind](const CLI::results_t& texts) {
    if (texts.at(0).empty()) refuse(flag + " is empty, it must name a " + kind);
    value = texts[0];
    return true;
  };
  std::string upper = kind;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return app.add_option(flag, CLI::callback_t(read), what)->type_name(upper);
}

/// What a program needs: one or more folders that are there.
inline void folders(CLI::App& app, std::vector<std::string>& value, const std::string& what) {
  const auto read = [&value](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      if (!std::filesystem::is_directory(text)) refuse("there is no folder \"" + text + "\"");
    }
    value = texts;
    return true;
  };
  app.add_option("DIR", CLI::callback_t(read), what)
      ->required()
      ->expected(CLI::detail::expected_max_vector_size);
}

/// An option that takes one of some words.
inline CLI::Option* choice(CLI::App& app, const std::string& flag, std::string& value,
                           const std::vector<std::string>& words, const std::string& what) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : "|") + word;
  const auto read = [&value, flag, words](const CLI::results_t& texts) {
    if (std::find(words.begin(), words.end(), texts.at(0)) == words.end()) {
      std::string known;
      for (const std::string& word : words) known += (known.empty() ? "" : ", ") + word;
      refuse(flag + " is " + (texts[0].empty() ? "empty" : texts[0]) + ", it must be one of " + known);
    }
    value = texts[0];
    return true;
  };
  return app.add_option(flag, CLI::callback_t(read), what)->type_name(all)->default_str(value);
}

/// Everything that an App knows, in lines of the terminal's width.
class HelpText final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const override {
    const heed::Index width = std::min<heed::Index>(columns(), 100);
    std::string text;
    std::istringstream lines(app->get_description());
    for (std::string line; std::getline(lines, line);) text += wrapped("", line, width);
    name = name.substr(name.rfind('/') + 1);
    text += "\nUsage: " + name + " [OPTIONS]";
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) text += " " + option->get_name(true) + (takes_many(*option) ? "..." : "");
    }
    text += "\n\n";
    for (const CLI::Option* option : app->get_options()) {
      std::string label = "  " + (option->get_positional() ? option->get_name(true) : flags_of(*option));
      if (!option->get_type_name().empty() && !option->get_positional())
        label += " " + option->get_type_name();
      std::string what = option->get_description();
      if (!option->get_default_str().empty()) what += " (default: " + option->get_default_str() + ")";
      constexpr heed::Index column = 24;
      if (heed::display_width(label) + 2 > column || width < 2 * column) {
        text += label + "\n" + wrapped(std::string(width < 2 * column ? 6 : column, ' '), what, width);
      } else {
        label.resize(column, ' ');
        text += wrapped(label, what, width);
      }
    }
    return text;
  }

 private:
  static bool takes_many(const CLI::Option& option) { return option.get_expected_max() > 1; }
  static std::string flags_of(const CLI::Option& option) {
    std::string text;
    for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
    for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
    return text;
  }
};

/// How many letters must be changed, added, left out or exchanged with their neighbor to make b of a
/// (optimal string alignment).
inline std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

/// The flag of the program that is nearest to a misspelt one, or is begun by it; empty if none is near.
inline std::string nearest_flag(const CLI::App& app, const std::string& given) {
  const std::string_view name =
      std::string_view(given).substr(std::min(given.find_first_not_of('-'), given.size()));
  std::string best;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      const bool begun = name.size() >= 3 && known.starts_with(name);
      const std::size_t far = begun ? 1 : distance(name, known);
      if (far >= least) continue;
      least = far;
      best = "--" + known;
    }
  }
  return best;
}

inline std::string about_unknown_argument(const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with('-')) return "what is \"" + argument + "\"? There is no option before it";
  const std::string given = argument.substr(0, argument.find('='));
  const std::string flag = nearest_flag(app, given);
  return "there is no option " + given + (flag.empty() ? "" : ", did you mean " + flag + "?");
}

/// Parses the arguments. The exit code, if the program is to end here: after --help, or with 2 after
/// arguments that are wrong, which are named on standard error.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  app.formatter(std::make_shared<HelpText>());
  app.get_help_ptr()->description("print this text and end");
  const std::string program = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1);
  std::string sentence;
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help(program) << std::flush;
    return std::cout ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    // What is not known at all comes first: it may well be why something else is missing.
    const std::vector<std::string> others = app.remaining();
    sentence = others.empty() ? error.what() : about_unknown_argument(app, others[0]);
  }
  std::cerr << program << ": " << heed::escaped(sentence) << "\n" << program << " --help lists the options\n";
  return usage_error;
}

/// A sentence about fields of a program's structs in the words of its command line: "top_p is 3" becomes
/// "--top-p is 3". `flags` has pairs of a field and its flag.
inline std::string with_flags(std::string sentence,
                              const std::vector<std::pair<std::string, std::string>>& flags) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  };
  for (const auto& [field, flag] : flags) {
    for (std::size_t at = sentence.find(field); at != std::string::npos; at = sentence.find(field, at)) {
      const std::size_t end = at + field.size();
      const bool alone =
          (at == 0 || !in_word(sentence[at - 1])) && (end == sentence.size() || !in_word(sentence[end]));
      if (alone) sentence.replace(at, field.size(), flag);
      at += alone ? flag.size() : field.size();
    }
  }
  return sentence;
}

/// Calls f, which hands the arguments to the library. What that refuses is a wrong argument, in words of
/// flags.
template <class F>
auto in_words_of_flags(const std::vector<std::pair<std::string, std::string>>& flags, F f) {
  try {
    return f();
  } catch (const heed::ArgumentError& error) {
    throw heed::ArgumentError(with_flags(error.what(), flags));
  } catch (const heed::ShapeError& error) {
    throw heed::ArgumentError(with_flags(error.what(), flags));
  }
}

/// Runs a whole program, and turns every exception into a message and an exit code: 2 for wrong arguments, 1
/// for all else.
template <class Program>
int guarded(const char* name, Program program) noexcept {
  try {
    const int code = program();
    std::cout.flush();
    if (!std::cout) throw heed::FileError("standard output cannot be written");
    return code;
  } catch (const std::bad_alloc&) {
    std::cerr << name << ": not enough memory for these sizes\n";
    return 1;
  } catch (const heed::ArgumentError& error) {
    std::cerr << name << ": " << heed::escaped(error.what()) << '\n';
    return usage_error;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << heed::escaped(error.what()) << '\n';
    return 1;
  }
}

}  // namespace demo
