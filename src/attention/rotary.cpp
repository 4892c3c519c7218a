// Rotary: the frequencies with their scalings, and the tables of cosines and sines.

#include "heed/attention/rotary.hpp"

#include <cmath>
#include <mutex>
#include <numbers>

#include "core/require.hpp"
#include "heed/core/memory.hpp"

namespace heed {

struct Rotary::Tables {
  Index rotary_dim = 0;
  Index max_positions = 0;
  RotaryOptions options;
  std::vector<double> frequencies;  ///< The frequency of each pair, in radians per position.

  template <class T>
  struct Table {
    std::once_flag made;
    std::vector<T> numbers;
  };
  Table<float> f32[2];  ///< From position 0 on, and from the first one before it on.
  Table<double> f64[2];

  template <class T>
  const T* get(Table<T> (&tables)[2], bool before_first_key, const Rotary& rotary) {
    Table<T>& table = tables[before_first_key ? 1 : 0];
    const Index first = before_first_key && max_positions > 0 ? 1 - max_positions : 0;
    std::call_once(table.made, [&] {
      const Index pairs = rotary_dim / 2;
      table.numbers.resize(static_cast<std::size_t>((max_positions - first) * rotary_dim));
      T* row = table.numbers.data();
      for (Index position = first; position < max_positions; ++position, row += rotary_dim) {
        for (Index pair = 0; pair < pairs; ++pair) {
          row[pair] = static_cast<T>(std::cos(rotary.angle(position, pair)));
          row[pairs + pair] = static_cast<T>(std::sin(rotary.angle(position, pair)));
        }
      }
    });
    return table.numbers.data() - first * rotary_dim;
  }
};

namespace {

void require_positive_number(double x, const char* name) {
  if (!(std::isfinite(x) && x > 0)) {
    throw_argument_error(std::string("rotary ") + name + " is " + detail::number_text(x) +
                         ", it must be positive and finite");
  }
}

/// Llama 3.1's rule for one frequency.
double scaled(double frequency, const Llama3Scaling& rule) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto context = static_cast<double>(rule.original_context);
  if (wavelength < context / rule.high_freq_factor) return frequency;
  if (wavelength > context / rule.low_freq_factor) return frequency / rule.factor;
  const double smooth =
      (context / wavelength - rule.low_freq_factor) / (rule.high_freq_factor - rule.low_freq_factor);
  return (1 - smooth) * frequency / rule.factor + smooth * frequency;
}

}  // namespace

Rotary::Rotary(Index rotary_dim, Index max_positions, const RotaryOptions& options)
    : tables_(std::make_shared<Tables>()) {
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    throw_argument_error("rotary_dim is " + std::to_string(rotary_dim) +
                         ", it must be even and at least 2: elements are turned in pairs");
  }
  if (max_positions < 0) {
    throw_argument_error("rotary max_positions is " + std::to_string(max_positions) +
                         ", it must not be negative");
  }
  detail::require_possible(rotary_dim, "rotary_dim");
  detail::require_possible(max_positions, "rotary max_positions");
  detail::require_product(2 * max_positions, rotary_dim, "rotary max_positions * rotary_dim");
  detail::require_memory(detail::matrix_bytes(sizeof(float), max_positions, rotary_dim), [&] {
    return "a rotary of " + std::to_string(max_positions) + " positions and rotary_dim " +
           std::to_string(rotary_dim);
  });
  require_positive_number(options.base, "base");
  require_positive_number(options.linear_factor, "linear_factor");
  if (options.llama3) {
    require_positive_number(options.llama3->factor, "llama3 factor");
    require_positive_number(options.llama3->low_freq_factor, "llama3 low_freq_factor");
    require_positive_number(static_cast<double>(options.llama3->original_context), "llama3 original_context");
    if (!(options.llama3->high_freq_factor > options.llama3->low_freq_factor)) {
      throw_argument_error("rotary llama3 high_freq_factor is " +
                           detail::number_text(options.llama3->high_freq_factor) +
                           ", it must be above low_freq_factor, which is " +
                           detail::number_text(options.llama3->low_freq_factor));
    }
  }
  tables_->rotary_dim = rotary_dim;
  tables_->max_positions = max_positions;
  tables_->options = options;
  for (Index i = 0; i < rotary_dim / 2; ++i) {
    const double frequency =
        std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
    tables_->frequencies.push_back(options.llama3 ? scaled(frequency, *options.llama3) : frequency);
  }
}

Index Rotary::rotary_dim() const noexcept {
  return tables_->rotary_dim;
}

Index Rotary::max_positions() const noexcept {
  return tables_->max_positions;
}

RotaryLayout Rotary::layout() const noexcept {
  return tables_->options.layout;
}

double Rotary::angle(Index position, Index pair) const noexcept {
  return (static_cast<double>(position) + static_cast<double>(tables_->options.offset)) /
         tables_->options.linear_factor * tables_->frequencies[static_cast<std::size_t>(pair)];
}

template <>
const float* Rotary::table<float>(bool before_first_key) const {
  return tables_->get(tables_->f32, before_first_key, *this);
}
template <>
const double* Rotary::table<double>(bool before_first_key) const {
  return tables_->get(tables_->f64, before_first_key, *this);
}

std::string Rotary::to_string() const {
  const RotaryOptions& options = tables_->options;
  std::string text = "rotary(" + std::to_string(tables_->rotary_dim) + " of each head, " +
                     (options.layout == RotaryLayout::half_split ? "half split" : "interleaved") + ", base " +
                     detail::number_text(options.base);
  if (options.offset != 0) text += ", offset " + std::to_string(options.offset);
  if (options.linear_factor != 1)
    text += ", positions divided by " + detail::number_text(options.linear_factor);
  if (options.llama3) text += ", Llama 3's scaling by " + detail::number_text(options.llama3->factor);
  return text + ")";
}

}  // namespace heed
