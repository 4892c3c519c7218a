// The classes of characters, ASCII and beyond.

#include "text/words.hpp"

#include <utf8proc.h>

namespace heed::text {

CharacterClass classify(char32_t code_point) noexcept {
  if (code_point < 0x80) return ascii_classes[code_point];
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::word;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::space;
    default:
      return code_point == 0x85 ? CharacterClass::space : CharacterClass::single;  // U+0085, next line
  }
}

}  // namespace heed::text
