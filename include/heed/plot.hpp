#pragma once

// The door to plot/: pictures made of characters. Nothing is printed: each function returns a string. Link
// heed::heed.
//
//   heat_map       a matrix as blocks of color, in ASCII or in Unicode, with labels
//   curves         training curves and scatter plots
//   display_text   text as a terminal shows it: how wide it is, cut, padded and made safe
//   terminal       what the terminal behind a stream can do

#include "heed/core/config.hpp"

#include "heed/plot/curves.hpp"
#include "heed/plot/display_text.hpp"
#include "heed/plot/heat_map.hpp"
#include "heed/plot/terminal.hpp"
