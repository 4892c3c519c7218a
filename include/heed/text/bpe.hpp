#pragma once

// Text to token ids and back by byte-pair encoding, learned on the characters of words:
//   R. Sennrich, B. Haddow, A. Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL
//   2016.
//
//   const heed::BpeTokenizer tokenizer = heed::train_bpe(corpus, {.vocab_size = 8000, .min_frequency = 2});
//   const std::vector<heed::TokenId> ids = tokenizer.encode("the quick brown fox", {.begin = true});
//   const std::string text = tokenizer.decode(ids);  // "the quick brown fox"
//
// Words. A word is a run of letters, numbers (Unicode general categories L* and N*) and '_', or any other
// single character that is not white space (the Unicode property White_Space). White space separates words
// and is otherwise dropped. A word's symbols are its characters and, after the last one, the end-of-word mark
// "</w>".
//
// Combining marks (M*) are not among the letters, as they are not in \w of Python's regular expressions, so
// each is a word of its own and ends the one before it: the vowel signs of Hindi and Thai, the points of
// Hebrew, the accents of decomposed text ("e" and U+0301). encode and decode go by the same rule, so decode
// puts a blank on both sides of each such mark: "e\u0301t\u00E9" comes back as "e \u0301 t\u00E9". Text that
// is composed first (NFC) keeps the words of languages that have composed letters.
//
// Characters are Unicode code points of UTF-8 text; nothing is normalized or lower-cased. NUL is a character
// like others. Text that is not UTF-8 is read as if each maximal ill-formed subsequence (Unicode 15,
// section 3.9, and the WHATWG decoder) were U+FFFD, in training and in encoding alike.
//
// Text never becomes a special token: '<' is a word of its own, so "<bos>" in a text is the words "<", "bos",
// ">", and no token that is learned can be spelled like "<bos>" or contain a "</w>" that is not the end of a
// word.

#include "heed/core/config.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/core/index.hpp"
#include "heed/core/token.hpp"

namespace heed {

namespace text {
struct BpeTables;
}

/// One learned step: the two neighbors `pair` become the one symbol `new_token`, their texts joined.
struct BpeMerge {
  std::pair<std::string, std::string> pair;  ///< The second may be the bare end-of-word mark "</w>".
  Index rank = 0;                            ///< Place in the order of learning, from 0.
  std::string new_token;                     ///< No new id if its text is a token already.

  friend bool operator==(const BpeMerge&, const BpeMerge&) = default;
};

/// When to stop learning.
struct BpeTrainOptions {
  /// Learn merges until the vocabulary has this many tokens: the 4 special ones, the characters, the merges.
  /// At least 5. All characters of the corpus are kept even if they alone are more than this.
  Index vocab_size = 8000;
  /// Learn no pair that occurs less often than this. Not negative; 0 means the same as 1.
  Index min_frequency = 2;
};

/// What training reports after each merge.
struct BpeTrainStep {
  const BpeMerge& merge;    ///< The merge just learned; valid during the call only.
  Index frequency;          ///< How often its pair occurred in the segmented corpus.
  Index vocab_size;         ///< Size of the vocabulary now.
  Index target_vocab_size;  ///< BpeTrainOptions::vocab_size.
};

/// Called after each merge, on the calling thread. What it throws ends the training and reaches the caller.
using BpeTrainCallback = std::function<void(const BpeTrainStep&)>;

/// Which special tokens encode() adds.
struct BpeEncodeOptions {
  bool begin = false;  ///< Put <bos> before the text.
  bool end = false;    ///< Put <eos> after the text.
};

/// A vocabulary with its merges. Immutable, cheap to copy (copies share their tables), and safe to use from
/// any number of threads at once.
class HEED_EXPORT BpeTokenizer {
 public:
  static constexpr TokenId unk_id = 0;  ///< <unk>: a character, or an end of a word, that no token covers.
  static constexpr TokenId pad_id = 1;  ///< <pad>
  static constexpr TokenId bos_id = 2;  ///< <bos>
  static constexpr TokenId eos_id = 3;  ///< <eos>

  /// Makes the tokenizer of an empty corpus: the four special tokens.
  BpeTokenizer();
  BpeTokenizer(const BpeTokenizer&) = default;
  BpeTokenizer& operator=(const BpeTokenizer&) = default;
  ~BpeTokenizer() = default;

  /// Returns the ids of a text. Each word, its end-of-word mark included, is cut into the longest tokens of
  /// the vocabulary from left to right; a character or an end of a word that starts no token is one <unk>.
  /// The merges play no part. Time is linear in the text's length, for every vocabulary and every length of
  /// word; memory beyond the result is proportional to the longest word (and to the text, if it is not
  /// UTF-8).
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, BpeEncodeOptions options = {}) const;

  /// Returns the text of ids: words joined by one blank, <pad>, <bos> and <eos> left out, <unk> as U+FFFD.
  /// White space and the place of blanks are not kept by encode, so this gives back the words, not the bytes,
  /// and words as they are defined above: punctuation and combining marks stand alone. Throws RangeError,
  /// naming the id and its place, if an id is not in the vocabulary.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const;
  [[nodiscard]] std::string decode(std::initializer_list<TokenId> ids) const;

  /// Returns a token's text, with "</w>" at its end if it ends a word. Throws RangeError if id is not in the
  /// vocabulary.
  [[nodiscard]] const std::string& id_to_token(TokenId id) const;

  /// Returns the id of the token with exactly this text (special tokens included), if there is one.
  [[nodiscard]] std::optional<TokenId> token_to_id(std::string_view token) const;

  [[nodiscard]] Index vocab_size() const noexcept;

  /// Returns the merges in the order they were learned.
  [[nodiscard]] const std::vector<BpeMerge>& merges() const noexcept;

  /// Returns {"vocab": {token: id, ..}, "merges": [{"pair": [left, right], "rank": n, "new_token": text},
  /// ..], "eow": "</w>"}, in UTF-8, tokens in the order of their ids: equal tokenizers give equal bytes.
  [[nodiscard]] std::string to_json() const;

  /// Reads to_json()'s format. Unknown fields are skipped, everything else is checked: ids are 0 .. n - 1
  /// without gap or repetition, the special tokens are where they belong, each merge joins symbols that exist
  /// by then and no two that an earlier one joined, and each token is a character or the work of a merge.
  /// Throws FileError that says what is wrong. A vocabulary may hold at most 64 MiB of text.
  [[nodiscard]] static BpeTokenizer from_json(std::string_view json);

  /// Writes to_json() to a file, whole or not at all: into a temporary file beside it that is then renamed.
  /// Throws FileError naming the path.
  void save(const std::filesystem::path& path) const;

  /// Reads a file that save wrote. Throws FileError naming the path and what is wrong with it.
  [[nodiscard]] static BpeTokenizer load(const std::filesystem::path& path);

  /// Returns true for equal vocabularies and equal merges.
  friend HEED_EXPORT bool operator==(const BpeTokenizer& left, const BpeTokenizer& right);

 private:
  explicit BpeTokenizer(std::shared_ptr<const text::BpeTables> tables) noexcept;
  friend BpeTokenizer train_bpe(std::span<const std::string_view>, const BpeTrainOptions&,
                                const BpeTrainCallback&);

  std::shared_ptr<const text::BpeTables> tables_;  ///< Never null: there is no move, a move copies.
};

/// Learns a vocabulary. It holds, in this order: <unk>, <pad>, <bos>, <eos>; every distinct character of the
/// corpus, white space too, by code point; then what the merges make, in the order of learning.
///
/// Each round counts all neighboring symbols over all words (in "aaa" the pair (a, a) occurs twice, though
/// only one of the two places can be merged), takes the most frequent pair, and among equally frequent ones
/// the one met first when the words of the corpus, as they are cut at that moment, are read from the start.
/// It is merged from left to right in every word. A merge whose text is a token already is kept as a merge
/// and adds no id. Learning ends when the vocabulary is full or no pair occurs min_frequency times. The
/// result depends on the text and the options alone.
///
/// Time is O(n log n) and memory O(n), n being the characters of the distinct words, plus one reading of the
/// corpus and the text of the vocabulary. Throws ArgumentError for options out of range, for a corpus without
/// a single byte (one of white space alone, or too small for a merge, gives the vocabulary of its
/// characters), and for a vocabulary whose text would exceed 64 MiB (very long words, each merged into few
/// tokens, make such).
HEED_EXPORT BpeTokenizer train_bpe(std::string_view corpus, const BpeTrainOptions& options,
                                   const BpeTrainCallback& on_merge = {});

/// Learns a vocabulary from several documents, read one after the other; no word reaches across their
/// borders.
HEED_EXPORT BpeTokenizer train_bpe(std::span<const std::string_view> documents,
                                   const BpeTrainOptions& options, const BpeTrainCallback& on_merge = {});

}  // namespace heed
