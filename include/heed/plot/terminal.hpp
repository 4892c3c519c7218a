#pragma once

// What the terminal behind a stream can do, and whether to send it color. Heed prints nothing itself: these
// functions only look, and a program decides with their answer what to ask for.

#include "heed/core/config.hpp"

#include <string>

#include "heed/plot/display_text.hpp"

namespace heed {

/// When a program writes color; the usual meaning of --color.
enum class ColorMode { never, always, automatic };

/// How many colors are written.
enum class ColorDepth {
  none,
  indexed,     ///< The 256 colors of ESC[48;5;Nm.
  true_color,  ///< 24 bits, ESC[48;2;R;G;Bm.
};

/// The terminal and the environment, as far as drawing cares. Fill it by hand to decide for a terminal
/// elsewhere.
struct Terminal {
  bool interactive = false;  ///< The stream is a terminal, not a file or a pipe.
  bool unicode = false;      ///< The locale's character set is UTF-8 (LC_ALL, LC_CTYPE, LANG; the first set).
  bool no_color = false;     ///< NO_COLOR is set and not empty.
  std::string term{};        ///< TERM
  std::string color_term{};  ///< COLORTERM
  Index width = 80;          ///< Columns: of the terminal, else COLUMNS, else 80.
};

/// Looks at a file descriptor (1 is standard output) and the environment.
/// Reads environment variables: not to be called while another thread sets them.
HEED_EXPORT Terminal query_terminal(int file_descriptor = 1);

/// Returns the colors to write. `always` and `never` win over everything; `automatic` writes color to an
/// interactive terminal whose TERM is set and not "dumb", unless NO_COLOR is set. True color needs COLORTERM
/// to be "truecolor" or "24bit".
HEED_EXPORT ColorDepth color_depth(ColorMode mode, const Terminal& terminal);

}  // namespace heed
