// A libFuzzer target: whatever the text is, tokenizers refuse it with FileError or are whole: they write what
// they read, and every text becomes ids that have tokens.

#include <string_view>

#include "byte_choices.hpp"
#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"
#include "heed/text/char_tokenizer.hpp"
#include "text_checks.hpp"

namespace {

using namespace heed;
using heed::test::require_law;

template <class Tokenizer>
void check_tokens(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids)
    require_law(id >= 0 && id < tokenizer.vocab_size(), "an id has a token", std::to_string(id));
  require_law(text_checks::decode(tokenizer.decode(ids)).valid, "decoded text is UTF-8",
              tokenizer.decode(ids));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const BpeTokenizer tokenizer = BpeTokenizer::from_json(json);
    require_law(BpeTokenizer::from_json(tokenizer.to_json()) == tokenizer, "a tokenizer reads what it writes",
                tokenizer.to_json());
    check_tokens(tokenizer, tokenizer.encode(json, {.begin = true, .end = true}));
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id)
      require_law(tokenizer.token_to_id(tokenizer.id_to_token(id)) == id, "a token has its id",
                  std::to_string(id));
  } catch (const FileError&) {
    // a refusal is a good answer
  }
  try {
    const CharTokenizer tokenizer = CharTokenizer::from_json(json);
    require_law(CharTokenizer::from_json(tokenizer.to_json()) == tokenizer,
                "a tokenizer of characters reads what it writes", tokenizer.to_json());
    check_tokens(tokenizer, tokenizer.encode(json));
  } catch (const FileError&) {
    // likewise
  } catch (const TextError&) {
    // the JSON has characters that it does not list
  }
  return 0;
}
