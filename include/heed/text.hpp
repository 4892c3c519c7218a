#pragma once

// The door to text/: from text to token ids and back. Link heed::heed.
//
//   bpe              train_bpe() and BpeTokenizer: byte-pair encoding, learned on the characters of words
//   char_tokenizer   CharTokenizer: a token for each character, which keeps white space

#include "heed/core/config.hpp"

#include "heed/text/bpe.hpp"
#include "heed/text/char_tokenizer.hpp"
