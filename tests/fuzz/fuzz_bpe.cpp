// A libFuzzer target: tokenizers are trained, encode and decode as the plain way does, and keep any text that
// they have learned.

#include <algorithm>

#include "bpe_naive.hpp"
#include "byte_choices.hpp"
#include "heed/core/error.hpp"
#include "heed/text/char_tokenizer.hpp"
#include "text_checks.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Text of few characters, so that pairs repeat, or any ASCII.
std::string ascii(ByteChoices& choices, Index length) {
  const std::string_view alphabet = choices.below(2) == 0 ? "ab " : "abc_ <>/w.\n";
  const bool few = choices.below(3) > 0;
  std::string text = choices.text(length);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    c = few ? alphabet[byte % alphabet.size()] : static_cast<char>(byte & 0x7FU);
  }
  return text;
}

/// True if the corpus is empty, which a trainer must refuse.
bool is_refused(const std::string& corpus, const BpeTrainOptions& options) {
  if (!corpus.empty()) return false;
  try {
    (void)train_bpe(corpus, options);
  } catch (const ArgumentError&) {
    return true;
  }
  require_law(false, "there is nothing to learn from an empty corpus");
  return true;
}

void check_ascii(ByteChoices& choices) {
  const BpeTrainOptions options{.vocab_size = 5 + choices.below(100), .min_frequency = choices.below(4)};
  const std::string corpus = ascii(choices, 120);
  const std::string text = ascii(choices, 200);
  if (is_refused(corpus, options)) return;
  const naive::Model expected = naive::train(corpus, options);
  std::vector<Index> frequencies;
  const BpeTokenizer tokenizer =
      train_bpe(corpus, options, [&](const BpeTrainStep& step) { frequencies.push_back(step.frequency); });
  const std::string details = "corpus \"" + corpus + "\", text \"" + text + "\"";
  require_law(tokenizer.merges() == expected.merges && frequencies == expected.frequencies,
              "the merges are those of the plain way", details);
  require_law(tokenizer.vocab_size() == std::ssize(expected.tokens), "so is the vocabulary's size", details);
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id)
    require_law(tokenizer.id_to_token(id) == expected.tokens[static_cast<std::size_t>(id)], "and each token",
                details);
  // No text has a special token, whatever is spelt like one.
  const auto id_of = [&](const std::string& token) {
    const TokenId id = expected.id_of(token);
    return id < 4 ? -1 : id;
  };
  require_law(tokenizer.encode(text) == naive::encode(text, id_of), "so are the ids of a text", details);
}

void check_any(ByteChoices& choices) {
  const BpeTrainOptions options{.vocab_size = 5 + choices.below(300), .min_frequency = choices.below(4)};
  const std::string corpus = choices.text(1 + choices.below(2000));
  const std::string rest = choices.text(2000);
  if (is_refused(corpus, options)) return;
  const std::size_t cut = corpus.size() / 2;
  const std::vector<std::string_view> documents = {std::string_view(corpus).substr(0, cut),
                                                   std::string_view(corpus).substr(cut)};
  for (const BpeTokenizer& tokenizer : {train_bpe(corpus, options), train_bpe(documents, options)}) {
    require_law(BpeTokenizer::from_json(tokenizer.to_json()) == tokenizer, "a tokenizer reads what it writes",
                tokenizer.to_json());
    for (const std::string& text : {corpus, rest}) {
      const std::vector<TokenId> ids = tokenizer.encode(text);
      for (const TokenId id : ids)
        require_law(id == 0 || (id > 3 && id < tokenizer.vocab_size()), "an id has a token");
      const std::string decoded = tokenizer.decode(ids);
      require_law(text_checks::decode(decoded).valid, "decoded text is UTF-8", decoded);
      if (std::find(ids.begin(), ids.end(), BpeTokenizer::unk_id) == ids.end())
        require_law(tokenizer.encode(decoded) == ids, "decoded words have the same ids", decoded);
    }
  }
  const CharTokenizer characters(corpus);
  const std::string decoded = characters.decode(characters.encode(corpus));
  require_law(text_checks::decode(decoded).valid, "characters decode to UTF-8", decoded);
  require_law(decoded == corpus || !text_checks::decode(corpus).valid, "characters give back the text",
              decoded);
  require_law(CharTokenizer::from_json(characters.to_json()) == characters,
              "characters read what they write");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteChoices choices(data, size);
  if (choices.below(2) == 0) {
    check_ascii(choices);
  } else {
    check_any(choices);
  }
  return 0;
}
