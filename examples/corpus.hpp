#pragma once

// What the demos' tokenizers learn from.

#include <string>
#include <string_view>
#include <vector>

#include "demo.hpp"
#include "heed/text/bpe.hpp"
#include "sonnets.hpp"

namespace demo {

inline const std::string tutorial_corpus =
    "the quick brown fox jumps over the lazy dog the quick brown fox jumps over the lazy dog "
    "she sells seashells by the seashore she sells seashells by the seashore ";

struct Corpus {
  std::string name;
  std::vector<std::string> documents;
  heed::Index vocab_size;  // when nobody says how many tokens to learn

  heed::Index bytes() const {
    heed::Index sum = 0;
    for (const std::string& document : documents) sum += std::ssize(document);
    return sum;
  }
  std::vector<std::string_view> views() const { return {documents.begin(), documents.end()}; }
};

/// The file, if one is named. Without one: for texts of the user's, English of all kinds and the texts
/// themselves, so that their words are known; otherwise the tutorial's corpus.
inline Corpus corpus_for(const std::string& file, const std::vector<std::string>& own_texts) {
  constexpr heed::Index until_no_pair_is_frequent = 8000;
  if (!file.empty()) return {file, {read_corpus(file)}, until_no_pair_is_frequent};
  if (own_texts.empty()) return {"the tutorial's", {tutorial_corpus}, 80};
  Corpus corpus{
      "Shakespeare's sonnets and the text itself, read twice", {sonnets}, until_no_pair_is_frequent};
  for (const std::string& text : own_texts) corpus.documents.insert(corpus.documents.end(), 2, text);
  return corpus;
}

}  // namespace demo
